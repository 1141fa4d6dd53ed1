"""The table of keys and what is made of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import recbole
import yaml
from recbole.config import Config

from recbole_residual.config import keys, pages
from recbole_residual.config.keys import BY_MODEL, KEYS
from recbole_residual.config.own_keys import CHANGED, OWN
from recbole_residual.config.probe_names import PROBES_AFTER_TRAINING
from recbole_residual.config.property_files import properties_dir
from recbole_residual.config.recbole_keys import RECBOLE
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.model import controls, duorec
from recbole_residual.model.bert4rec_residual import MASK_POSITION
from recbole_residual.model.objective import LOSS_POSITIONS
from recbole_residual.model.registry import MODELS

MEND = "write them anew: python -m recbole_residual.config.pages"
RECBOLE_FILES = Path(recbole.__path__[0]) / "properties"


def test_a_key_stands_once() -> None:
    names = [key.name for key in (*OWN, *CHANGED, *RECBOLE)]
    assert sorted(names) == sorted(set(names))
    assert not set(keys.MOVED) & set(KEYS)


def test_the_table_and_help_need_neither_torch_nor_recbole() -> None:
    code = (
        "import sys; from recbole_residual.config.pages import help_lines; "
        "from recbole_residual.config.keys import KEYS; assert help_lines(); "
        "assert not {'torch', 'recbole', 'pandas'} & set(sys.modules), 'heavy'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=properties_dir().parent)


def test_property_files_are_the_tables() -> None:
    for path, text in pages.property_files().items():
        assert path.read_text(encoding="utf-8") == text, MEND
    there = {path.stem for path in (properties_dir() / "model").glob("*.yaml")}
    assert there == set(keys.models_with_keys())


def test_property_files_read_back_as_the_defaults() -> None:
    for path, text in pages.property_files().items():
        for name, value in yaml.safe_load(text).items():
            variant = KEYS[name].variants.get(path.stem)
            assert value == (variant.default if variant else KEYS[name].default)


def test_the_documentation_is_the_tables() -> None:
    page = properties_dir().parent / "docs" / "configuration.md"
    if not page.is_file():
        pytest.skip("no documentation beside an installed package")
    text = page.read_text(encoding="utf-8")
    assert pages.docs_page(text) == text, MEND
    for key in KEYS:
        assert f"`{key}`" in text


def test_help_names_every_key() -> None:
    text = "\n".join(pages.help_lines())
    assert all(key in text for key in KEYS)
    assert max(map(len, pages.help_lines())) <= 100


def test_recboles_defaults_are_recboles() -> None:
    loader = Config._build_yaml_loader(None)
    defaults = {}
    for file in ("overall.yaml", "dataset/sample.yaml"):
        defaults.update(yaml.load((RECBOLE_FILES / file).read_text("utf-8"), Loader=loader))
    for key in RECBOLE:
        if key.name in defaults:
            assert key.default == defaults[key.name], key.name
        elif key.default is not BY_MODEL:
            assert key.name in (
                "encoding",
                "benchmark_filename",
                "discretization",
                "tail_ratio",
                *keys.MACHINE_KEYS,
            )


def test_every_default_is_usable() -> None:
    for key in KEYS.values():
        if key.default is not BY_MODEL:
            assert key.read(key.default) == key.default, key.name
        for variant in key.variants.values():
            assert (variant.kind or key.kind).read(variant.default) == variant.default


def test_every_default_of_recboles_models_is_usable() -> None:
    loader = Config._build_yaml_loader(None)
    for file in (RECBOLE_FILES / "model").glob("*.yaml"):
        for name, value in (yaml.load(file.read_text("utf-8"), Loader=loader) or {}).items():
            if name in KEYS and not KEYS[name].models:
                KEYS[name].read(value)


@pytest.mark.parametrize("model", sorted(MODELS))
def test_a_model_knows_the_keys_of_the_table_that_it_reads(model: str) -> None:
    known = ResidualConfig(model, "ml-100k").known_keys
    for key in OWN:
        assert (key.name in known) == key.read_by(MODELS[model]), key.name


def test_the_models_switches_are_the_tables() -> None:
    for name, values in controls.CHOICES.items():
        assert keys.choices(name) == tuple(values)
    assert keys.choices("mask_position") == tuple(MASK_POSITION)
    assert keys.choices("contrast") == tuple(duorec.CONTRAST)
    assert keys.choices("sim") == tuple(duorec.SIM)
    assert keys.choices("loss_positions") == tuple(LOSS_POSITIONS)
    assert keys.choices("probe") == tuple(PROBES_AFTER_TRAINING)


def test_sets_of_keys() -> None:
    assert {
        "data_path",
        "gpu_id",
        "use_gpu",
        "show_progress",
        "state",
        "worker",
        "report",
        "latex",
        "nproc",
        "world_size",
        "ip",
        "port",
        "group_offset",
        "offset",
    } == keys.RESUME_KEYS
    assert {"device", "gpu_id", "checkpoint_dir", "nproc", "output_dir"} <= keys.MACHINE_KEYS
    assert {"data_path", "output_dir", "pre_model_path"} <= keys.PATH_KEYS
