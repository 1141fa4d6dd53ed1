"""Which RecBole this package works with, told before an import of it fails."""

from __future__ import annotations

from importlib import metadata

from recbole_residual.errors import ConfigError

RECBOLE_VERSION = "1.2.1"
"""The version whose classes this package builds on."""


def check_recbole_version() -> None:
    """Refuse another RecBole than the one that this package is made for, without importing it.

    Raises:
        ConfigError: with the version that is there and the one that is wanted.
    """
    mend = f"pip install recbole=={RECBOLE_VERSION}"
    try:
        installed = metadata.version("recbole")
    except metadata.PackageNotFoundError:
        raise ConfigError(f"RecBole is not installed: {mend}") from None
    if installed != RECBOLE_VERSION:
        raise ConfigError(
            f"RecBole {installed} is installed, and this package works with {RECBOLE_VERSION}: "
            f"{mend}"
        )
