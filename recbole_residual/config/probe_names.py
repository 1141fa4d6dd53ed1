"""The names of the probes, apart from their code so that ``--help`` need not load it."""

from __future__ import annotations

from collections.abc import Iterable

from recbole_residual.errors import ConfigError, UnknownProbeError, suggestion

PROBES = {
    "internals": "mixing ratios by layer, average maps of 15 positions, ranks of the last item",
    "alpha_selection": "alpha chosen on validation, tested once, the oracle beside it",
    "alpha_sweep": "every metric as alpha goes from 0 to 1",
    "layer_grid": "the same for every combination of one alpha per layer",
    "feed_forward_sweep": "the same for the residual around the feed-forward blocks",
    "shuffle": "shuffled, reversed and cut inputs: the relative drop and its spread",
    "positions": "mixing ratio and accuracy read at L, L-1, L-2 and L-3",
    "faithfulness": "items taken out one by one, against what attributions say of them",
    "influence": "which weights carry accuracy and last-item reliance, and what is left without",
    "reliance": "HRLI@1, mixing ratio and accuracy without each suspect, in one table",
}
"""What each probe shows."""

PROBES_AFTER_TRAINING = {
    "quick": ("internals", "alpha_selection", "alpha_sweep", "shuffle"),
    "full": tuple(PROBES),
    "none": (),
}
"""What the values of the config key ``probe`` stand for."""


def probes_after_training(level: str) -> tuple[str, ...]:
    """The probes that a value of the config key ``probe`` stands for.

    Raises:
        ConfigError: for another value.
    """
    if level not in PROBES_AFTER_TRAINING:
        raise ConfigError(f"probe = {level!r} is not usable: one of {list(PROBES_AFTER_TRAINING)}.")
    return PROBES_AFTER_TRAINING[level]


def probe_names(names: Iterable[str]) -> list[str]:
    """Check names of probes; each once, in the order given.

    Raises:
        UnknownProbeError: with the nearest known name.

    Example:
        >>> probe_names(["shuffle", "positions", "shuffle"])
        ['shuffle', 'positions']
        >>> probe_names(["shufle"])
        Traceback (most recent call last):
        ...
        recbole_residual.errors.UnknownProbeError: unknown probe 'shufle'. Did you mean \
'shuffle'? There are: internals, alpha_selection, alpha_sweep, layer_grid, feed_forward_sweep, \
shuffle, positions, faithfulness, influence, reliance.
    """
    checked = list(dict.fromkeys(names))
    for name in checked:
        if name not in PROBES:
            hint = suggestion(name, PROBES)
            raise UnknownProbeError(
                f"unknown probe {name!r}.{hint} There are: {', '.join(PROBES)}."
            )
    return checked
