"""The first import of matplotlib, without its word on the fonts that it found."""

from __future__ import annotations

import logging

_logger = logging.getLogger("matplotlib.font_manager")
_level = _logger.level
# On the first use on a machine, importing the font manager lists the fonts there and logs that it
# did so, which would stand in the log of a run.
_logger.setLevel(logging.ERROR)
try:
    from matplotlib import font_manager
finally:
    _logger.setLevel(_level)

__all__ = ["font_manager"]
