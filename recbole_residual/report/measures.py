"""What of a run is held against each finding of the papers."""

from __future__ import annotations

from collections.abc import Callable

from recbole_residual.report.intervals import with_intervals
from recbole_residual.report.measured import Measured, cell
from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import Runs, chosen_alpha, oracle_alpha, probe_frame, sweep_of


def test_value(record: RunRecord, key: str) -> float | None:
    """A metric of the test data, unrounded; None if the run does not have it."""
    return record.result.get("test_result_unrounded", {}).get(key)


def of_test(record: RunRecord, key: str) -> Measured | None:
    """A metric of the test data with its interval; None if the run does not have it."""
    value = test_value(record, key)
    if value is None:
        return None
    return Measured(value, *record.intervals.get("test", {}).get(key, ()))


def _difference(first: float | None, second: float | None) -> Measured | None:
    return None if first is None or second is None else Measured(first - second)


def _position_spread(record: RunRecord) -> Measured | None:
    ratios = probe_frame(record, "internals")
    if ratios is None:
        return None
    if record.predicts_at_mask:
        return Measured(float("nan"))
    chosen = (ratios["stage"] == "res") & (ratios["layer"] == "all") & (ratios["position"] != "all")
    values = ratios.loc[chosen, "mean"]
    return Measured(float(values.max() - values.min())) if len(values) else None


def _correlation(record: RunRecord, column: str) -> Measured | None:
    frame = sweep_of(record)
    if frame is None or "alpha" not in frame or column not in frame:
        return None
    alpha, values = frame["alpha"].rank(), frame[column].rank()
    return Measured(float(alpha.corr(values)) if values.nunique() > 1 else float("nan"))


def _recovery(record: RunRecord) -> Measured | None:
    frame = sweep_of(record)
    if frame is None or "alpha" not in frame or "recoveryrate@10" not in frame:
        return None
    near = frame[frame["alpha"].between(0.1 - 1e-9, 0.3 + 1e-9)]
    if not near["recoveryrate@10"].notna().any():
        return Measured(float("nan"))
    near = with_intervals(near, record.n_sequences("test"))
    return cell(near, int(near["recoveryrate@10"].argmax()), "recoveryrate@10")


def _chosen_minus_oracle(record: RunRecord) -> Measured | None:
    chosen, frame = chosen_alpha(record), sweep_of(record)
    if chosen is None or frame is None:
        return None
    k = record.probes["alpha_selection"].about["k"]
    rate = frame.set_index("alpha")[f"recoveryrate@{k}"]
    return Measured(float(rate[chosen] - rate[oracle_alpha(record)]))


def _uniform_minus_learned(record: RunRecord, runs: Runs) -> Measured | None:
    if record.config["model"] != "SASRecUniform":
        return None
    ignored = {"model", "attention", "output_dir", "checkpoint_dir"}
    for other in runs.records:
        same = all(
            record.config.get(key) == value
            for key, value in other.config.items()
            if key not in ignored
        )
        if other.config["model"] == "SASRecResidual" and same:
            return _difference(test_value(record, "ndcg@10"), test_value(other, "ndcg@10"))
    return None


MEASURES: dict[str, Callable[[RunRecord, Runs], Measured | None]] = {
    "mixing_attn": lambda record, runs: of_test(record, "mixingratio_attn"),
    "mixing_res": lambda record, runs: of_test(record, "mixingratio_res"),
    "ln_minus_res": lambda record, runs: _difference(
        test_value(record, "mixingratio_ln"), test_value(record, "mixingratio_res")
    ),
    "position_spread": lambda record, runs: _position_spread(record),
    "alpha_mixing": lambda record, runs: _correlation(record, "mixingratio_res"),
    "alpha_hrli": lambda record, runs: _correlation(record, "hrli@1"),
    "recovery": lambda record, runs: _recovery(record),
    "chosen_minus_oracle": lambda record, runs: _chosen_minus_oracle(record),
    "uniform_minus_learned": _uniform_minus_learned,
}
"""By the name that papers.yaml gives them: None if it was not run."""
