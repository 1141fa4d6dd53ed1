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
        if family is not None and not _one_has(families, character):
            families.append(family)
    return families


def is_readable(text: str) -> bool:
    """Whether a font on this machine has every character of a text.

    Example:
        >>> is_readable("Léon (1994)"), is_readable("\\U000f0000")
        (True, False)
    """
    return all(_family_with(character) is not None for character in set(text))


@cache
def _family_with(character: str) -> str | None:
    """The first font that has a character, None if there is none."""
    if character.isspace() or _one_has([DEFAULT], character):
        return DEFAULT
    names = {font.name for font in font_manager.fontManager.ttflist}
    for name in sorted(names, key=lambda name: (_rank(name), name)):
        if _draws_letters(name) and _one_has([name], character):
            return name
    return _family_of_a_new_font(character)


def _family_of_a_new_font(character: str) -> str | None:
    """The same out of fonts that were installed after matplotlib made its list."""
    manager = font_manager.fontManager
    listed = {font.fname for font in manager.ttflist}
    for file in sorted(set(font_manager.findSystemFonts()) - listed):
        if ord(character) in _characters(file):
            manager.addfont(file)
            name = manager.ttflist[-1].name
            if _draws_letters(name):
                return name
    return None


def _one_has(families: Iterable[str], character: str) -> bool:
    return any(ord(character) in _characters(_file_of(family)) for family in families)


def _draws_letters(name: str) -> bool:
    return not name.replace(" ", "").lower().lstrip(".").startswith(_WITHOUT_LETTERS)


def _rank(name: str) -> int:
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


@cache
def _file_of(family: str) -> str:
    return font_manager.findfont(font_manager.FontProperties(family=[family]))


@cache
def _characters(file: str) -> frozenset[int]:
    try:
        return frozenset(FT2Font(file).get_charmap())
    except RuntimeError:  # FreeType cannot read this one: pictures of letters, or a broken file
        return frozenset()
