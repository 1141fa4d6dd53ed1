"""The runs beside a run: other folders in the same place, of the same dataset."""

from __future__ import annotations

from logging import getLogger

from recbole_residual.errors import CheckpointError
from recbole_residual.files import CONFIG_FILE, RESULT_FILE, read_json, read_yaml
from recbole_residual.report.record import RunRecord

MOST = 50
"""How many are looked at, those with the latest results first."""


def neighbouring_results(record: RunRecord) -> list[dict[str, float]]:
    """Metrics of the test data of finished runs whose folders lie beside this one's.

    Args:
        record: the run; only runs on its dataset count.
    """
    files = [
        folder / RESULT_FILE
        for folder in record.folder.parent.iterdir()
        if folder != record.folder
        and (folder / RESULT_FILE).is_file()
        and (folder / CONFIG_FILE).is_file()  # other programs have files of that name too
    ]
    files.sort(key=lambda file: (-file.stat().st_mtime, file))
    results = []
    for file in files[:MOST]:
        try:
            result, config = read_json(file), read_yaml(file.parent / CONFIG_FILE)
        except CheckpointError as error:
            getLogger().warning("A run beside this one is left out of its report: %s", error)
            continue
        dataset = result.get("dataset", config.get("dataset"))
        values = result.get("test_result_unrounded") or result.get("test_result")
        if dataset == record.config["dataset"] and values:
            results.append({key: value for key, value in values.items() if value is not None})
    return results
