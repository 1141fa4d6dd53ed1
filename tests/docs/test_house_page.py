"""docs/house.md names rooms and functions that are there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from tests.test_house import PACKAGE, ROOMS

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


def test_the_picture_shows_arrows_that_go_down() -> None:
    picture = PAGE.partition("```mermaid")[2].partition("```")[0]
    arrows = 0
    for line in picture.splitlines():
        names = re.findall(r"\b(\w+)\b(?=\[| *-->| *$)", line.strip())
        rooms = [name for name in names if name in ROOMS]
        for above, below in zip(rooms, rooms[1:]):
            arrows += 1
            assert ROOMS.index(below) < ROOMS.index(above), line
    assert arrows > 15


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
