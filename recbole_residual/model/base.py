"""What every model of this package adds to its RecBole parent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from recbole_residual.model.architecture.residuals import residual_blocks
from recbole_residual.model.architecture.score import item_vectors
from recbole_residual.model.architecture.wrappers import refuse_compiled_hooks
from recbole_residual.model.learned_alpha import LEARNED, learn_alpha
from recbole_residual.model.loss import DEFAULT_LOGITS_CHUNK
from recbole_residual.model.objective import all_positions_loss, target_list_field
from recbole_residual.model.residual import Alpha, ResidualScale, check_alpha, scale_residual
from recbole_residual.model.sampled_loss import SampledLoss

if TYPE_CHECKING:
    from recbole.model.abstract_recommender import SequentialRecommender as _Parent
else:
    _Parent = object


def has_alpha(model: Any) -> bool:
    """Whether ``model`` has the ``alpha`` of this package; FOSSIL has one of another kind."""
    return hasattr(model, "alpha_train")


class ResidualMixin(_Parent):
    """Adds ``alpha`` and the view of all positions to a RecBole sequential recommender.

    Put it before the RecBole class and call :meth:`_init_residual` at the end of ``__init__``::

        class SASRecResidual(ResidualMixin, SASRec):
            def __init__(self, config, dataset):
                super().__init__(config, dataset)
                self._init_residual(config)
    """

    can_train_at_all_positions: bool = True
    """Whether ``loss_positions: all`` makes sense; if not, training is RecBole's."""

    sampled_loss: SampledLoss | None = None
    """The loss of ``loss_type`` SSM and gBCE, for models that offer them."""

    _alpha_scale: ResidualScale | None = None
    _keep_positions: bool = False

    def _init_residual(self, config: Any) -> None:
        """Read ``alpha`` and ``alpha_train`` from the configuration and lay ``alpha`` on."""
        self.alpha_train = config["alpha_train"]
        if self.alpha_train == LEARNED:
            self.learned_alpha = learn_alpha(self)
            self.learned_alpha_path: list[list[float]] = []
            self.other_parameter_name = ["learned_alpha_path"]
        else:
            check_alpha(self.alpha_train, len(residual_blocks(self)), "alpha_train")
        self.alpha = config["alpha"]
        self.logits_chunk = config["logits_chunk"] or DEFAULT_LOGITS_CHUNK
        self.neg_prefix = config["NEG_PREFIX"]

    def calculate_loss(self, interaction: Any) -> torch.Tensor:
        """RecBole's loss on RecBole's samples; the loss at every position on whole sequences."""
        if target_list_field(self.ITEM_SEQ) in interaction:
            return all_positions_loss(self, interaction)
        if self.sampled_loss is not None:
            hidden = self.forward(interaction[self.ITEM_SEQ], interaction[self.ITEM_SEQ_LEN])
            return self.sampled_loss(hidden, item_vectors(self), interaction[self.POS_ITEM_ID])
        return super().calculate_loss(interaction)

    @contextmanager
    def as_trained(self) -> Iterator[None]:
        """Inside, the model is what it is in training and early stopping: ``alpha_train`` in force
        in the place of ``alpha``, and no other switch that is for inference."""
        with scale_residual(self, 1.0 if self.alpha_train == LEARNED else self.alpha_train):
            yield

    def epoch_ended(self) -> None:
        """Called after every epoch of training: notes the learned residual factors."""
        if self.alpha_train == LEARNED:
            self.learned_alpha_path.append(self.learned_alpha.tolist())

    @property
    def alpha(self) -> list[float]:
        """Factor of the attention residual, one per layer; in force outside of
        :func:`~recbole_residual.model.residual.scale_residual` contexts, which win over it also
        where it is set inside one."""
        return list(self._alpha)

    @alpha.setter
    def alpha(self, value: Alpha) -> None:
        factors = check_alpha(value, len(residual_blocks(self)))
        scale = ResidualScale(self, factors, beneath=True)
        if self._alpha_scale is not None:
            self._alpha_scale.remove()
        self._alpha = factors
        self._alpha_scale = scale

    def gather_indexes(self, output: torch.Tensor, gather_index: torch.Tensor) -> torch.Tensor:
        """RecBole's gather of one position per row, [B, L, D] -> [B, D]; everything stays while
        :meth:`all_positions` asks.

        Raises:
            ModelError: if a module was compiled after hooks had been set in it.
        """
        refuse_compiled_hooks(self)
        if self._keep_positions:
            return output
        return super().gather_indexes(output, gather_index)

    @contextmanager
    def _keeping_positions(self) -> Iterator[None]:
        self._keep_positions = True
        try:
            yield
        finally:
            self._keep_positions = False

    def all_positions(self, item_seq: torch.Tensor, item_seq_len: torch.Tensor) -> torch.Tensor:
        """The output representation at every position.

        Args:
            item_seq: item ids, padded with 0 at the end, [B, L].
            item_seq_len: number of valid positions, [B].

        Returns:
            torch.Tensor: what ``forward`` gives for the last position, for all of them, [B, L, D].
        """
        with self._keeping_positions():
            return self.forward(item_seq, item_seq_len)
