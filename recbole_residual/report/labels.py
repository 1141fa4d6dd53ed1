"""What runs are called beside each other, and which of them are one configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recbole_residual.report.record import RunRecord

_NOT_THE_MODEL = frozenset(
    # Where and how much was computed, not what.
    [
        "output_dir",
        "checkpoint_dir",
        "data_path",
        "gpu_id",
        "use_gpu",
        "show_progress",
        "state",
        "worker",
        "probe",
        "report",
        "latex",
        "export_per_user",
        "metrics",
        "topk",
        "eval_batch_size",
        "strict_config",
    ]
)


def labelled(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Name each run by model, dataset and whatever else tells it from the others.

    Runs that differ in nothing of the kind are told apart by their folders: by as much of the end
    of the path as it takes.
    """
    labels = [_label(record, records, with_seed=True) for record in records]
    named = []
    for record, label in zip(records, labels):
        alike = [other for other, name in zip(records, labels) if name == label]
        ending = _shortest_ending(record, alike)
        named.append(replace(record, label=f"{label} ({ending})" if ending else label))
    return named


def configurations(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Runs that differ in nothing but their seed, by what they have in common."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(_label(record, records, with_seed=False), []).append(record)
    return groups


def _label(record: RunRecord, records: Sequence[RunRecord], with_seed: bool) -> str:
    alike = [
        other
        for other in records
        if all(other.config[key] == record.config[key] for key in ("model", "dataset"))
    ]
    words = [record.config["model"], record.config["dataset"]]
    for key in sorted(record.config):
        values = [other.config.get(key) for other in alike]
        if key in _NOT_THE_MODEL or (key == "seed" and not with_seed):
            continue
        if any(value != values[0] for value in values):
            words.append(f"{key} {record.config[key]}")
    return ", ".join(map(str, words))


def _shortest_ending(record: RunRecord, alike: Sequence[RunRecord]) -> str:
    """As much of the end of a run's path as tells it from the others; nothing if it is alone."""
    others = [other.folder.parts for other in alike if other.folder != record.folder]
    if not others:
        return ""
    parts = record.folder.parts
    for length in range(1, len(parts)):
        if all(other[-length:] != parts[-length:] for other in others):
            return "/".join(parts[-length:])
    return str(record.folder)
