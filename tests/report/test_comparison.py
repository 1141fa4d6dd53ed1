"""Several runs: means over seeds, tests across users, and the page, against sums by hand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from recbole_residual import compare
from recbole_residual.command import main
from recbole_residual.errors import ConfigError
from recbole_residual.report.paired import paired_test
from recbole_residual.report.record import RunRecord
from tests.report.test_page import SECTIONS, Page

ALPHA_1 = "SASRecResidual, ml-100k, alpha 1.0"
ALPHA_02 = "SASRecResidual, ml-100k, alpha 0.2"


def unrounded(folder: Path) -> dict[str, float]:
    return json.loads((folder / "result.json").read_text())["test_result_unrounded"]


def test_seeds_of_one_configuration_are_averaged(
    whole_run: Path, other_seed: Path, other_alpha: Path
) -> None:
    found = compare([whole_run, other_seed, other_alpha])
    runs = found.tables["runs"]
    assert list(runs["run"]) == [
        f"{ALPHA_1}, seed 1",
        f"{ALPHA_1}, seed 2",
        f"{ALPHA_02}, seed 1",
    ]
    over = found.tables["over_seeds"].set_index("configuration")
    assert list(over["runs"]) == [2, 1]
    for name, key in (("NDCG@10", "ndcg@10"), ("HRLI@1", "hrli@1"), ("mixing res", None)):
        values = [unrounded(f)[key or "mixingratio_res"] for f in (whole_run, other_seed)]
        assert over.loc[ALPHA_1, f"{name} mean"] == pytest.approx(np.mean(values))
        assert over.loc[ALPHA_1, f"{name} std"] == pytest.approx(np.std(values, ddof=1))
    assert np.isnan(over.loc[ALPHA_02, "NDCG@10 std"])
    assert "±" in str(found)


def test_tests_pair_the_same_users(whole_run: Path, other_seed: Path, other_alpha: Path) -> None:
    found = compare([whole_run, other_seed, other_alpha]).tables["paired_tests"]
    row = found[found["metric"] == "NDCG@10"].iloc[0]
    tables = [RunRecord.read(f).per_user() for f in (whole_run, other_seed, other_alpha)]
    users = tables[0].index
    a = np.mean([table.loc[users, "ndcg@10"] for table in tables[:2]], axis=0)
    b = tables[2].loc[users, "ndcg@10"].to_numpy()
    assert row["users"] == len(users) == 60
    assert row["difference"] == pytest.approx(np.mean(a - b))
    assert row["difference_low"] <= row["difference"] <= row["difference_high"]
    for name in ("p (t)", "p (Wilcoxon)"):
        # Holm's method by its definition: the i-th smallest of m times m - i, never falling.
        ordered = sorted(found[name].dropna())
        steps = [min(1.0, p * (len(ordered) - i)) for i, p in enumerate(ordered)]
        expected = [max(steps[: i + 1]) for i in range(len(steps))]
        assert sorted(found[f"{name}, Holm"].dropna()) == pytest.approx(expected)
    assert row["p (t)"] == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert row["p (Wilcoxon)"] == pytest.approx(stats.wilcoxon(a, b).pvalue)
    assert (row["a"], row["b"]) == (ALPHA_1, ALPHA_02)


def by_hand(a: np.ndarray, b: np.ndarray) -> float:
    """p of the paired t-test from its definition."""
    difference = a - b
    t = difference.mean() / (difference.std(ddof=1) / np.sqrt(len(difference)))
    return 2 * stats.t.sf(abs(t), len(difference) - 1)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(3, 40))
def test_paired_test_against_its_definition(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    index = pd.MultiIndex.from_arrays([[f"u{i}" for i in range(n)], ["t"] * n])
    first = pd.DataFrame({"m": rng.normal(size=n)}, index=index)
    second = pd.DataFrame({"m": rng.normal(size=n)}, index=index).sample(frac=1, random_state=1)
    found = paired_test(first, second, "m")
    assert found is not None
    b = second.loc[index, "m"].to_numpy()
    assert found["p (t)"] == pytest.approx(by_hand(first["m"].to_numpy(), b))
    assert found["difference"] == pytest.approx((first["m"].to_numpy() - b).mean())


def test_users_without_a_value_or_a_partner_are_left_out() -> None:
    def table(values: dict[str, float]) -> pd.DataFrame:
        index = pd.MultiIndex.from_tuples([(user, "t") for user in values])
        return pd.DataFrame({"m": list(values.values())}, index=index)

    first = table({"a": 1.0, "b": 0.0, "c": float("nan"), "d": 1.0})
    second = table({"a": 0.0, "b": 0.0, "c": 1.0, "e": 1.0})
    found = paired_test(first, second, "m")
    assert found is not None
    assert found["users"] == 2
    same = paired_test(first, first, "m")
    assert same is not None
    assert same["difference"] == 0
    assert np.isnan(same["p (t)"])
    assert paired_test(first, second, "other") is None
    assert paired_test(first, table({"x": 1.0}), "m") is None


def users(values: np.ndarray) -> pd.DataFrame:
    index = pd.MultiIndex.from_arrays([[f"u{i}" for i in range(len(values))], ["t"] * len(values)])
    return pd.DataFrame({"m": values}, index=index)


def test_equal_fractions_tie() -> None:
    # Every difference is a third: 30 up, 30 down. As floats, 1 - 2/3 is not 1/3.
    a = np.array([1 / 3] * 30 + [2 / 3] * 30)
    b = np.array([0.0] * 30 + [1.0] * 30)
    result = paired_test(users(a), users(b), "m")
    assert result is not None
    assert result["p (Wilcoxon)"] == pytest.approx(1)
    assert result["p (t)"] == pytest.approx(1)
    # 0.3 - 0.2 and 0.2 - 0.1 are the same difference, so there is nothing to test.
    same = paired_test(users(np.array([0.3, 0.2])), users(np.array([0.2, 0.1])), "m")
    assert same is not None
    assert np.isnan(same["p (Wilcoxon)"])
    assert np.isnan(same["p (t)"])


def test_runs_whose_folders_bear_one_name_are_told_apart(masked_run: Path, tmp_path: Path) -> None:
    for parent in ("a", "b"):
        shutil.copytree(masked_run, tmp_path / parent / "run")
    found = compare([tmp_path / "a" / "run", tmp_path / "b" / "run", masked_run])
    labels = list(found.tables["runs"]["run"])
    assert [label.partition("(")[2] for label in labels] == ["a/run)", "b/run)", "masked)"]
    assert set(found.tables["dataset"]["run"]) == set(labels)
    (tmp_path / "link").symlink_to(masked_run)
    with pytest.raises(ConfigError, match="given twice"):
        compare([masked_run, tmp_path / "link"])


def test_what_is_missing_is_named(whole_run: Path, masked_run: Path) -> None:
    found = compare([whole_run, masked_run])
    assert found.tables["paired_tests"] is None
    page = Page(found.to_html())
    assert page.sections == ["answer", "runs", "seeds", "tests", *SECTIONS[1:]]
    assert "not run for BERT4RecResidual, ml-100k: no values per user" in page.text
    assert "not run for: BERT4RecResidual, ml-100k" in page.text
    assert "does not speak of the last item" in page.text
    assert found.figures["maps_2"] is None
    assert len(found.figures["alpha_curves"].get_axes()[0].get_lines()) >= 1


def test_the_command_writes_a_page(
    whole_run: Path, other_seed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "page"
    runs = ["--runs", str(whole_run), str(other_seed)]
    assert main(["--mode=compare", *runs, f"--output_dir={folder}"]) == 0
    assert "2 runs of 1 configurations" in capsys.readouterr().out
    assert (folder / "report.html").is_file()
    assert (folder / "tables" / "over_seeds.csv").is_file()
    assert main(["--mode=compare", *runs, f"--output_dir={folder}"]) == 2
    assert "holds a run already" in capsys.readouterr().err


def test_mistakes_are_said(whole_run: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least two"):
        compare([whole_run])
    with pytest.raises(ConfigError, match="given twice"):
        compare([whole_run, whole_run])
    with pytest.raises(ConfigError, match="not the folder of a run"):
        compare([whole_run, tmp_path])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mode=compare"], "--runs FOLDER"),
        (["--mode=report"], "--run=FOLDER"),
        (["--mode=diagnose"], "--checkpoint=FILE"),
        (["--mode=compare", "--runs", "a", "b", "--alpha=1"], "--alpha has no use"),
        (["--mode=report", "--run=a", "--alpha=1"], "--alpha has no use"),
        (["--mode=report", "--run=a", "--latex=maybe"], "True or False"),
        (["--mode=compare", "--runs", "a", "b", "--latex=2"], "True or False"),
        (["--mode=diagnose", "--checkpoint=a.pth"], "no checkpoint"),
        (["--checkpoint=a.pth"], "it is for --mode=diagnose"),
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
