"""The house: imports go one way, and every file, function and list of arguments stays small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import recbole_residual

PACKAGE = Path(recbole_residual.__file__).parent

ROOMS = (
    # From the ground up: a room imports only from those before it.
    "version",
    "errors",
    "files",
    "processes",
    "checkpoint",
    "compat",
    "model",
    "decomposition",
    "evaluator",
    "config",
    "data",
    "trainer",
    "run",
    "probe",
    "report",
    "diagnose",
    "tune",
    "study",
    "command",
)

FILES = sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path) for path in FILES}


def imported(path: Path) -> Iterator[str]:
    """The modules of this package that a file imports anywhere, for type checking too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            below = [f"{node.module}.{name.name}" for name in node.names]
            yield from (name if name in MODULES else node.module for name in below)


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def room_of(module: str) -> str:
    return module.split(".")[1]


def test_every_room_has_its_floor() -> None:
    assert {room_of(name) for name in MODULES if "." in name} == set(ROOMS)


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_go_down(path: Path) -> None:
    name = module_name(path)
    if name == PACKAGE.name:
        return  # the front door names what is in every room
    floor = ROOMS.index(room_of(name))
    for other in imported(path):
        if other != PACKAGE.name:
            assert ROOMS.index(room_of(other)) <= floor, f"{name} imports {other}"


def test_no_file_imports_itself_by_way_of_others() -> None:
    # A package's __init__ that only names what is below it is no step of a circle.
    below = {
        module_name(path): {
            other for other in imported(path) if not other.startswith(module_name(path) + ".")
        }
        for path in FILES
        if module_name(path) != PACKAGE.name
    }
    done: set[str] = set()

    def walk(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join((*way[way.index(name) :], name))
        if name not in done:
            for other in sorted(below.get(name, ())):
                walk(other, (*way, name))
            done.add(name)

    for name in sorted(below):
        walk(name, ())


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_nothing_grows_too_large(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
    for function in functions(path):
        docstring = 0
        first = function.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            docstring = (first.end_lineno or first.lineno) - first.lineno + 1
        n_lines = (function.end_lineno or function.lineno) - function.lineno + 1 - docstring
        assert n_lines <= 60, f"{function.name} has {n_lines} lines"
        taken = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        names = [argument.arg for argument in taken if argument.arg not in ("self", "cls")]
        assert len(names) <= 7, f"{function.name} takes {len(names)} arguments"


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_what_tests_need_stays_in_tests(path: Path) -> None:
    assert "unittest" not in path.read_text(encoding="utf-8")


def test_no_function_shadows_a_module() -> None:
    for path in FILES:
        if path.name == "__init__.py" and path.parent != PACKAGE:
            siblings = {other.stem for other in path.parent.glob("*.py")}
            siblings |= {other.name for other in path.parent.iterdir() if other.is_dir()}
            public = {
                name.asname or name.name
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.ImportFrom)
                for name in node.names
                if f"{node.module}.{name.name}" not in MODULES  # the module itself
            }
            hidden = {
                name for name in public & siblings if f"{module_name(path)}.{name}" in MODULES
            }
            assert not hidden, f"{module_name(path)}: {hidden}"
