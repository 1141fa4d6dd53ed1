"""Where the package's yaml files are: in the wheel beside this file, in a checkout one level up."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def properties_dir() -> Path:
    """The folder that holds ``overall.yaml``, ``model/``, ``dataset/`` and ``tune/``.

    Raises:
        FileNotFoundError: if the installation lost its yaml files.
    """
    for folder in (_PACKAGE / "properties", _PACKAGE.parent / "properties"):
        if (folder / "overall.yaml").is_file():
            return folder
    raise FileNotFoundError(
        f"recbole_residual's properties (overall.yaml) are neither in {_PACKAGE / 'properties'} "
        f"nor in {_PACKAGE.parent / 'properties'}: the installation is incomplete, install again."
    )
