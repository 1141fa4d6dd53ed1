"""The README and the pages of docs/: blocks marked as runnable run, and links lead somewhere."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import recbole_residual
from recbole_residual import probe
from tests.conftest import SMALL

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
MARKED = re.compile(r"<!-- runnable -->\n```python\n(.*?)```", flags=re.DOTALL)
RUNNABLE = [path for path in PAGES if MARKED.search(path.read_text(encoding="utf-8"))]


def page_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def made_small(code: str) -> str:
    """The same with settings that train in a second."""
    return code.replace("config_dict={", "config_dict={**SMALL, ").replace(
        '"ml-100k")', '"ml-100k", config_dict=SMALL)'
    )


def test_the_pages_that_should_run_do() -> None:
    assert {"README.md", "docs/getting_started.md", "docs/science.md"} <= set(
        map(page_name, RUNNABLE)
    )


@pytest.mark.parametrize("path", RUNNABLE, ids=page_name)
def test_runnable_blocks_run(path: Path) -> None:
    from recbole_residual.evaluator import unregister

    names: dict[str, Any] = {"SMALL": SMALL}
    try:
        for block in MARKED.findall(path.read_text(encoding="utf-8")):
            exec(compile(made_small(block), str(path), "exec"), names)
    finally:
        unregister()


def anchors(path: Path) -> set[str]:
    """Those of a page's headings, as Markdown's renderers make them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    texts = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {text.strip().replace(" ", "-") for text in texts}


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if link.startswith(("http://", "https://")):
            continue
        file, _, anchor = link.partition("#")
        target = path.parent / file if file else path
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


@pytest.mark.parametrize(
    "name",
    [
        name
        for path in PAGES
        for name in re.findall(r"^::: (\S+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ],
)
def test_what_the_reference_names_is_there(name: str) -> None:
    assert pkgutil.resolve_name(name) is not None


def test_the_reference_has_every_public_name() -> None:
    reference = " ".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "api").glob("*.md")
    )
    named = {name.rpartition(".")[2] for name in re.findall(r"::: (\S+)", reference)}
    questions = {name for name in probe.__all__ if name.islower()}
    assert {*recbole_residual.__all__, *questions} - {"__version__"} <= named


def test_rooms_and_files_that_contributors_are_sent_to_are_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w./-]+/[\w.-]+\.py)`", text)
    assert named
    missing = [
        name
        for name in named
        if not any((base / name).exists() for base in (ROOT, ROOT / "recbole_residual"))
    ]
    assert not missing


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_files_that_a_page_names_are_there(path: Path) -> None:
    named = re.findall(
        r"(?<![\w/.-])((?:tests|benchmarks|recbole_residual|properties|examples)/[\w./-]*\w)",
        path.read_text(encoding="utf-8"),
    )
    missing = [name for name in named if not (ROOT / name).exists()]
    assert not missing
