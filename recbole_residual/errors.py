"""What a user can do wrong, and what of the outside world can fail: one family of errors.

Everything here ends the command with its message and exit code 2; any other exception is a bug and
shows its traceback. Importing this module costs nothing: no torch, no RecBole.

    ResidualError
      ConfigError       the configuration, the command line, or what was asked of a run
      DataError         the dataset's files
      CheckpointError   a checkpoint, or a run's folder
      ModelError        a model that cannot do what was asked, or gave no numbers
      ProbeError        a question that this model or this data cannot answer
      WriteError        a file that cannot be written
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence


def suggestion(name: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """A sentence for an error about a name that is not known; empty if none is like it.

    Args:
        name: as it was written.
        known: the names that there are.
        likeness: how alike two names must be, from 0 to 1.

    Example:
        >>> suggestion("shufle", ["shuffle", "positions"]), suggestion("x", ["shuffle"])
        (" Did you mean 'shuffle'?", '')
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=likeness)
    return f" Did you mean {close[0]!r}?" if close else ""


class ResidualError(ValueError):
    """Base of every error of this package that a user can mend."""


class ConfigError(ResidualError):
    """The configuration cannot be used as it is."""


class DataError(ResidualError):
    """The data cannot be used as it is."""


class CheckpointError(ResidualError):
    """The file is not a usable checkpoint."""


class ModelError(ResidualError):
    """The model cannot do what was asked of it."""


class ProbeError(ResidualError):
    """The probe cannot be made."""


class WriteError(ResidualError):
    """A file cannot be written: the disk is full, the folder is not writable, or the like."""

    def __init__(self, path: str, error: OSError) -> None:
        reason = error.strerror or str(error)
        super().__init__(
            f"{path} cannot be written: {reason}. What was saved before is whole. Make room, or "
            "make the folder writable, and repeat the command; training goes on with --resume."
        )


class UsageError(ConfigError):
    """The command line cannot be read."""


class UnknownModelError(ConfigError):
    """No model of that name, here or in RecBole."""

    def __init__(self, name: str, own: Sequence[str], recbole: Sequence[str]) -> None:
        hint = suggestion(name, [*own, *recbole])
        super().__init__(
            f"unknown model {name!r}.{hint} Models of this package: {', '.join(own)}. "
            f"RecBole's sequential models: {', '.join(recbole)}."
        )


class UnavailableMetricError(ConfigError):
    """A metric in the configuration cannot be had from the model, the data or the ranking."""


class HistoryMaskedError(ConfigError):
    """The last input items were taken out of the ranking in which they are to be found."""

    def __init__(self, n_rows: int) -> None:
        super().__init__(
            f"{n_rows} sequences have their last input items masked out of the ranking (score "
            "-inf), so HRLI and HRL2I have no meaning: set filter_seen: False (and no other mask "
            "of the history), or leave HRLI and HRL2I out of metrics."
        )


class UnknownProbeError(ConfigError):
    """No probe of that name."""


class SpaceError(ConfigError):
    """A search space that cannot be used, with what is wrong with it."""


class MissingPackageError(ConfigError):
    """A package that the search needs is not installed."""


class DatasetNotFoundError(DataError):
    """There are no files for this dataset, and none can be had."""


class AtomicFileError(DataError):
    """An atomic file that cannot be read, with its path and what is wrong with it."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


class UnknownTokenError(DataError):
    """A user or an item that the model has never seen."""

    def __init__(self, kind: str, tokens: Sequence[str], dataset: str) -> None:
        more = f" and {len(tokens) - 10} more" if len(tokens) > 10 else ""
        super().__init__(
            f"{kind} not in {dataset} as the model was trained on it: "
            f"{', '.join(map(repr, tokens[:10]))}{more}. Tokens are those of the dataset's files; "
            "filters may have taken them out."
        )


class UntrustedCheckpointError(CheckpointError):
    """The checkpoint asks for something outside the allow-list."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        super().__init__(
            f"the checkpoint wants to load {wanted!r}, which is not on the list of what RecBole "
            "checkpoints need. If you know where the file comes from, trust_checkpoint=True "
            "(--trust_checkpoint=True) loads it like any pickle, running what it contains."
        )


class NoAttentionError(ModelError):
    """The model holds no attention block whose residual could be scaled or decomposed."""

    def __init__(self, model: object, with_attention: Sequence[str]) -> None:
        super().__init__(
            f"{type(model).__name__} has no RecBole attention block, so it has no attention "
            "residual to scale or to decompose. RecBole models that have one: "
            f"{', '.join(with_attention)}, and every model of recbole_residual built on "
            "them (SASRecResidual, BERT4RecResidual, ...)."
        )


class NoSwitchError(ModelError):
    """The model has no such part to switch off."""


class NoPositionError(ModelError):
    """The model's ranking does not come from one position, picked with ``gather_indexes``."""

    def __init__(self, model: object) -> None:
        super().__init__(
            f"{type(model).__name__} does not make its ranking from its last position alone, "
            "picked with RecBole's self.gather_indexes(output, item_seq_len - 1), so it cannot be "
            "read at earlier positions: use gather_indexes there, or leave RecoveryRate out of "
            "metrics."
        )


class TrainingModeError(ModelError):
    """A forward in training mode was to be decomposed: dropout would be part of the numbers."""

    def __init__(self, module: object) -> None:
        super().__init__(
            f"{type(module).__name__} is in training mode, where dropout changes the attention "
            "at random: call model.eval() before decomposing it."
        )


class NonlinearScoreError(ModelError):
    """The model's score is not the dot product of its last layer with the item embedding."""

    def __init__(
        self, model: object, by_product: Sequence[str], otherwise: Mapping[str, str]
    ) -> None:
        name = type(model).__name__
        reason = f"{name} has {otherwise[name]}" if name in otherwise else "this model does not"
        super().__init__(
            f"The scores of {name} are not the dot product of its last layer's output with the "
            f"item embedding, so they do not split into shares of positions. "
            f"{', '.join(by_product)} and models scored like them do; {reason}."
        )


class NotObservedError(ModelError):
    """A batch came in while nobody was watching the model."""

    def __init__(self) -> None:
        super().__init__(
            "HRLI, HRL2I, MixingRatio, RecoveryRate and export_per_user need to see the model at "
            "work: call recbole_residual.register() before the Trainer is made, or evaluate "
            "inside `with recbole_residual.evaluator.observing(trainer):`."
        )


class NaNScoreError(ModelError):
    """The model gave scores that are not numbers, so there is no ranking."""

    def __init__(self, n_rows: int) -> None:
        super().__init__(
            f"{n_rows} of the evaluated sequences have NaN scores, so they have no ranking and no "
            "metric. The model has diverged or its weights are broken: lower the learning rate, "
            "or check the checkpoint."
        )


class ProbeDataError(ProbeError):
    """The data cannot be probed as it is."""


class ProbeUnavailableError(ProbeError):
    """The model has nothing that this probe could ask about."""


class ProcessDiedError(ResidualError):
    """One of several processes that train a model together is gone, and so are the others."""

    def __init__(self, number: int, count: int, how: str, run_folder: str | None) -> None:
        go_on = f"--resume={run_folder}" if run_folder else "--resume and the folder of the run"
        super().__init__(
            f"process {number} of {count} {how}, so the others were ended. If the system ran out "
            "of memory, take fewer processes or a smaller train_batch_size. To go on after the "
            f"last whole epoch: {go_on}."
        )


class NothingFinishedError(ResidualError):
    """Every trial of a search failed."""


class RayDiedError(ResidualError):
    """Ray's process on this machine is gone, and every trial with it."""
