"""Another RecBole is told before an import fails."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

import recbole_residual
from recbole_residual.command import main
from recbole_residual.config.property_files import properties_dir
from recbole_residual.config.recbole_version import RECBOLE_VERSION, check_recbole_version
from recbole_residual.errors import ConfigError


def test_the_installed_one_is_right() -> None:
    check_recbole_version()


def test_another_one_is_named_with_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "1.2.0")
    with pytest.raises(ConfigError, match=r"RecBole 1\.2\.0 is installed.*recbole==1\.2\.1"):
        check_recbole_version()


def test_none_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(ConfigError, match="RecBole is not installed"):
        check_recbole_version()


def test_the_packages_requirement_is_the_same() -> None:
    setup = properties_dir().parent / "setup.cfg"
    if not setup.is_file():
        pytest.skip("no setup.cfg beside an installed package")
    assert f"recbole=={RECBOLE_VERSION}\n" in setup.read_text(encoding="utf-8")


def test_asking_imports_neither() -> None:
    code = (
        "import sys; from recbole_residual.config.recbole_version import check_recbole_version; "
        "check_recbole_version(); assert not {'torch', 'recbole'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=properties_dir().parent)


def test_the_package_and_its_command_say_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "1.2.0")
    with pytest.raises(ConfigError, match=r"recbole==1\.2\.1"):
        recbole_residual.SASRecResidual  # noqa: B018
    assert main(["--model=SASRecResidual", "--dataset=ml-100k"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: RecBole 1.2.0 is installed")
    assert message.count("\n") == 1
