"""What is written from the table of keys: property files, ``--help``, the documentation.

``python -m recbole_residual.config.pages`` in a checkout writes the files anew.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import yaml

from recbole_residual.config.keys import BY_MODEL, Key, keys_of, models_with_keys
from recbole_residual.config.kinds import Choice
from recbole_residual.config.own_keys import CHANGED, OWN
from recbole_residual.config.property_files import properties_dir
from recbole_residual.config.recbole_keys import RECBOLE
from recbole_residual.files import write_text

_COMMENT_COLUMN = 32
_HELP_COLUMN = 30

_OVERALL_HEAD = (
    "# What this package adds to RecBole's overall.yaml, and where its default differs. "
    "RecBole's file is read first."
)
_MODEL_HEAD = "# {model}: what this package adds. The files of the classes below it are read first."


def plain(value: Any) -> str:
    """A default as yaml and the command line write it."""
    if value is None:
        return "~"
    if isinstance(value, (bool, int, float)):
        return str(value)
    if isinstance(value, str) and value == value.strip() and value:
        return value
    return (
        yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
        .split("\n...")[0]
        .strip()
    )


def _yaml_line(key: Key, default: Any, kind: Any, text: str) -> str:
    named = text if not isinstance(kind, Choice) else _with_choices(text, kind)
    setting = f"{key.name}: {plain(default)}  "
    return f"{setting:<{_COMMENT_COLUMN}}# ({kind.label}) {named}"


def _with_choices(text: str, kind: Choice) -> str:
    if all(f"'{value}'" in text for value in kind.values) or len(kind.values) == 1:
        return text
    return f"{text} Range in [{', '.join(kind.values)}]."


def overall_yaml() -> str:
    """The text of ``properties/overall.yaml``."""
    lines = [_OVERALL_HEAD]
    keys = [key for key in (*OWN, *CHANGED) if key.section]
    for section in dict.fromkeys(key.section for key in keys):
        lines += ["", f"# {section}"]
        lines += [
            _yaml_line(key, key.default, key.kind, key.text)
            for key in keys
            if key.section == section
        ]
    return "\n".join(lines) + "\n"


def model_yaml(model: str) -> str:
    """The text of a file in ``properties/model``."""
    lines = [_MODEL_HEAD.format(model=model)]
    for key, variant in keys_of(model):
        kind, text = variant.kind or key.kind, variant.text or key.text
        lines.append(_yaml_line(key, variant.default, kind, text))
    return "\n".join(lines) + "\n"


def property_files() -> dict[Path, str]:
    """The property files that come from the table, with their text."""
    folder = properties_dir()
    texts = {folder / "overall.yaml": overall_yaml()}
    for model in models_with_keys():
        texts[folder / "model" / f"{model}.yaml"] = model_yaml(model)
    return texts


def help_lines() -> list[str]:
    """The keys for ``--help``: this package's with their meaning, RecBole's by name."""
    lines = []
    for key in (*OWN, *CHANGED):
        start = f"  --{key.name}={plain(key.default)}"
        text = _with_choices(key.text, key.kind) if isinstance(key.kind, Choice) else key.text
        body = textwrap.wrap(text, 98 - _HELP_COLUMN)
        if len(start) >= _HELP_COLUMN:
            lines.append(start)
            start = ""
        starts = [start, *[""] * (len(body) - 1)]
        lines += [f"{first:<{_HELP_COLUMN}}{rest}" for first, rest in zip(starts, body)]
    names = ", ".join(key.name for key in RECBOLE)
    wrapped = textwrap.wrap(names, 96, initial_indent="  ", subsequent_indent="  ")
    return [*lines, "", "and RecBole's, with RecBole's meaning:", *wrapped]


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")


def _row(key: Key) -> str:
    by_model = key.default is BY_MODEL
    default = "" if by_model or key.default is None else f"`{plain(key.default)}`"
    for model, variant in key.variants.items():
        if variant.default != key.default:
            default += f"; {model} `{plain(variant.default)}`"
    if key.models == ("ResidualMixin",):
        readers = "models with a residual factor"
    else:
        readers = ", ".join(f"{model} and what is built on it" for model in key.models) or "every"
    more = f" See [{key.page.split('.')[0]}]({key.page})." if key.page else ""
    cells = (
        f"`{key.name}`",
        "the model's" if by_model else default,
        key.kind.words,
        readers,
        key.text + more,
    )
    return f"| {' | '.join(map(_cell, cells))} |"


def docs_tables() -> str:
    """The tables of docs/configuration.md."""
    head = ["| key | default | value | read by | meaning |", "| --- | --- | --- | --- | --- |"]
    own = [_row(key) for key in OWN]
    others = [_row(key) for key in (*CHANGED, *RECBOLE)]
    return "\n".join(
        [
            "### Keys of this package",
            "",
            *head,
            *own,
            "",
            "### RecBole's keys that are checked",
            "",
            *head,
            *others,
        ]
    )


DOCS_BEGIN, DOCS_END = "<!-- keys: begin -->", "<!-- keys: end -->"


def docs_page(page: str) -> str:
    """A page with the tables between the two marks put in anew."""
    before, _, rest = page.partition(DOCS_BEGIN)
    _, _, after = rest.partition(DOCS_END)
    return f"{before}{DOCS_BEGIN}\n\n{docs_tables()}\n\n{DOCS_END}{after}"


def main() -> None:
    """Write the property files and the documentation's table."""
    texts = property_files()
    docs = properties_dir().parent / "docs" / "configuration.md"
    if docs.is_file():
        texts[docs] = docs_page(docs.read_text(encoding="utf-8"))
    for path, text in texts.items():
        write_text(path, text)


if __name__ == "__main__":
    main()
