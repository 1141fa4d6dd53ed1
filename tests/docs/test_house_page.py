"""docs/house.md names rooms and functions that are there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from tests.test_house import FILES, PACKAGE, ROOMS, imported, module_name, room_of

PAGE = (Path(__file__).parents[2] / "docs" / "house.md").read_text(encoding="utf-8")
JOURNEYS = PAGE.partition("## Five journeys")[2].partition("## Where is ...?")[0]
QUESTIONS = PAGE.partition("## Where is ...?")[2]
STATIONS = sorted(set(re.findall(r"`([a-z_]+(?:\.\w+)+)`", JOURNEYS)))


def looked_up(name: str) -> Any:
    """An object by its dotted name below the package."""
    module, rest = PACKAGE.name, name.split(".")
    while rest:
        try:
            importlib.import_module(f"{module}.{rest[0]}")
        except ModuleNotFoundError:
            break
        module = f"{module}.{rest.pop(0)}"
    found: Any = importlib.import_module(module)
    for part in rest:
        found = getattr(found, part)
    return found


def test_every_room_has_a_line() -> None:
    rooms = PAGE.partition("## The rooms")[2].partition("## Five journeys")[0]
    named = re.findall(r"`(\w+)(?:/|\.py)`", rooms)
    assert set(ROOMS) <= set(named)


def drawn_arrows() -> dict[str, set[str]]:
    """The rooms that each room of the picture points at."""
    picture = PAGE.partition("flowchart TD")[2].partition("```")[0]
    arrows: dict[str, set[str]] = {}
    for line in picture.splitlines():
        rooms = line.split("-->")
        for above, below in zip(rooms, rooms[1:]):
            arrows.setdefault(above.strip(), set()).add(below.strip())
    return arrows


def reached(room: str, arrows: dict[str, set[str]]) -> set[str]:
    """The rooms below a room, by way of others too."""
    below = arrows.get(room, set())
    return below.union(*(reached(other, arrows) for other in below))


def test_the_picture_is_that_of_the_imports() -> None:
    imports: dict[str, set[str]] = {}
    for path in FILES:
        name = module_name(path)
        if name != PACKAGE.name:
            others = {room_of(other) for other in imported(path) if "." in other}
            imports.setdefault(room_of(name), set()).update(others - {room_of(name)})
    arrows = drawn_arrows()
    for room in ROOMS:
        assert arrows.get(room, set()) <= imports[room], room
        assert imports[room] - {"version"} <= reached(room, arrows), room


def test_there_are_five_journeys_and_ten_questions() -> None:
    assert JOURNEYS.count("\n### ") == 5
    assert QUESTIONS.count("\n| Where is ") == 10


@pytest.mark.parametrize("name", STATIONS)
def test_stations_of_the_journeys_are_there(name: str) -> None:
    assert callable(looked_up(name))


@pytest.mark.parametrize("path", re.findall(r"`([a-z_]+/[\w/]*(?:\.py)?)`", QUESTIONS))
def test_answers_name_files(path: str) -> None:
    assert (PACKAGE / path).exists()


def test_a_model_is_reached_in_eight_stays() -> None:
    for journey in ("A checkpoint to a report", "One sequence to its explanation"):
        steps = JOURNEYS.partition(f"### {journey}")[2].partition("\n###")[0]
        (number,) = re.findall(r"^(\d+)\. .*the model is there", steps, flags=re.MULTILINE)
        assert int(number) <= 8
