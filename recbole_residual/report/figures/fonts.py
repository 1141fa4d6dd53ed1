"""Fonts for titles in any script, out of those that the machine has."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from matplotlib.ft2font import FT2Font

from recbole_residual.report.figures._start import font_manager

DEFAULT = "DejaVu Sans"
"""The font that comes with matplotlib: Latin, Greek, Cyrillic, Arabic, Hebrew and more."""

_FIRST = (
    # Looked at before others: whole fonts, in the look of a text rather than of a title.
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Noto Sans JP",
    "Noto Sans SC",
    "Source Han Sans",
    "Hiragino Sans",
    "PingFang SC",
    "Yu Gothic",
    "Microsoft YaHei",
    "IPAexGothic",
    "IPAGothic",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "SimHei",
    "Malgun Gothic",
    "Arial Unicode MS",
)

_WITHOUT_LETTERS = ("lastresort", "adobeblank")
"""Fonts that claim every character and draw the same box for each."""


def families_for(texts: Iterable[str]) -> list[str]:
    """Fonts that together write some texts, for matplotlib's ``font.family``.

    Characters that no font on this machine has are left as they are: see :func:`is_readable`.
    """
    families = [DEFAULT]
    for character in sorted(set("".join(texts))):
        family = _family_with(character)
        if family is not None and family not in families:
            if _all_in(families, character):
                continue
            families.append(family)
    return families


def is_readable(text: str) -> bool:
    """Whether a font on this machine has every character of a text.

    Example:
        >>> is_readable("Léon (1994)"), is_readable("\\U000f0000")
        (True, False)
    """
    return all(_family_with(character) is not None for character in set(text))


def _all_in(families: Iterable[str], character: str) -> bool:
    return any(ord(character) in _characters(_file_of(family)) for family in families)


@cache
def _family_with(character: str) -> str | None:
    """The first font that has a character, None if there is none."""
    if character.isspace() or ord(character) in _characters(_file_of(DEFAULT)):
        return DEFAULT
    fonts = {
        font.name: font.fname
        for font in font_manager.fontManager.ttflist
        if not font.name.replace(" ", "").lower().lstrip(".").startswith(_WITHOUT_LETTERS)
    }
    for name in sorted(fonts, key=lambda name: (_rank(name), name)):
        if ord(character) in _characters(fonts[name]):
            return name
    return None


def _rank(name: str) -> int:
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


def _file_of(family: str) -> str:
    return font_manager.findfont(font_manager.FontProperties(family=[family]))


@cache
def _characters(file: str) -> frozenset[int]:
    return frozenset(FT2Font(file).get_charmap())
