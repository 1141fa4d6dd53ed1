"""What different attributions say of the latest items of some sequences.

References:
    Abnar & Zuidema, ACL 2020 (attention rollout); Kobayashi et al., EMNLP 2021 (norms of
    contributions); Sundararajan et al. "Axiomatic Attribution for Deep Networks", ICML 2017
    (integrated gradients, from a baseline of zero vectors in the place of item vectors).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from recbole.data.interaction import Interaction

from recbole_residual.decomposition import Decomposition, observe, rollout, score_shares
from recbole_residual.decomposition.stages import GATE_STAGES, has_ratios, stages_of
from recbole_residual.errors import ModelError, NonlinearScoreError
from recbole_residual.model.architecture.positions import last_valid_position
from recbole_residual.model.architecture.window import ends_in_mask

FROM_MAPS = ("attention", "attention_rollout", "norm_contribution", "contribution_rollout")
"""Read from the maps of the last layer, or rolled out through all of them; the same whatever item
is explained."""

ATTRIBUTIONS = (*FROM_MAPS, "logit_share", "gradient_x_input", "integrated_gradients")
"""Every attribution; the last three speak of one item's score."""

INTEGRATION_STEPS = 16
"""Points between the baseline and the input at which gradients are taken."""


class Attributions:
    """Attributions of the score of one item per sequence to its latest items.

    Args:
        model: a RecBole sequential model, in eval mode.
        n_recent: how many of the latest items, T.

    Attributes:
        names: those that the model can give, known after the first batch.
        notes: why others are missing.
        n_forwards: forwards so far for each sequence, a backward pass counted as two.
    """

    def __init__(self, model: Any, n_recent: int) -> None:
        self._model, self._n_recent = model, n_recent
        self._names = list(ATTRIBUTIONS)
        self._has_mask = ends_in_mask(model)
        self.notes: list[str] = []
        self.n_forwards = 0
        if stages_of(model) == GATE_STAGES or not has_ratios(model):
            self._drop((*FROM_MAPS, "logit_share"), "it has no attention block")

    @property
    def names(self) -> list[str]:
        return list(self._names)

    def of(self, interaction: Interaction, item: torch.Tensor) -> dict[str, torch.Tensor]:
        """Attributions of some sequences.

        Args:
            interaction: the sequences, on the model's device.
            item: the item whose score is explained, [B].

        Returns:
            By name, counted back from the last item, NaN where there is none, [B, T].
        """
        self.n_forwards = 0
        found: dict[str, torch.Tensor] = {}
        for names, attribute in (
            (FROM_MAPS, self._maps),
            (("logit_share",), self._shares),
            (("gradient_x_input",), self._gradient),
            (("integrated_gradients",), self._integrated),
        ):
            if names[0] not in self._names:
                continue
            try:
                found.update(attribute(interaction, item))
            except (NonlinearScoreError, ModelError) as error:
                self._drop(names, str(error))
        return found

    def _drop(self, names: tuple[str, ...], reason: str) -> None:
        self._names = [name for name in self._names if name not in names]
        kind = type(self._model).__name__
        self.notes.append(f"{', '.join(names)} cannot be had from {kind}: {reason}")

    def _recent(self, values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Values at the latest items, counted back from the last one, NaN where there is none.

        Args:
            values: by position, [B, L].
            mask: valid positions, that of [MASK] included, [B, L].
        """
        offset = torch.arange(self._n_recent, device=values.device) + self._has_mask
        at = last_valid_position(mask).unsqueeze(1) - offset
        recent = values.gather(1, at.clamp(min=0))
        reached = (at >= 0) & mask.gather(1, at.clamp(min=0))
        return recent.masked_fill(~reached, float("nan"))

    @torch.no_grad()
    def _maps(self, interaction: Interaction, item: torch.Tensor) -> dict[str, torch.Tensor]:
        seen: list[Decomposition] = []
        with observe(self._model, seen.append, maps=True):
            self._model.full_sort_predict(interaction)
        self.n_forwards += 1
        (decomposition,) = seen
        mask, rolled = decomposition.mask, rollout(decomposition)
        assert decomposition.attention is not None
        assert decomposition.contributions is not None
        last = last_valid_position(mask).view(-1, 1, 1).expand(-1, 1, mask.shape[1])
        values = (
            decomposition.attention[-1].gather(1, last).squeeze(1),
            rolled.attention,
            decomposition.contributions[-1].gather(1, last).squeeze(1),
            rolled.contribution,
        )
        return {name: self._recent(value, mask) for name, value in zip(FROM_MAPS, values)}

    def _shares(self, interaction: Interaction, item: torch.Tensor) -> dict[str, torch.Tensor]:
        shares = score_shares(self._model, interaction, item)
        self.n_forwards += 1
        values = shares.positions[:, 0].clone()
        # What the last position's own residual carries is the last item's.
        last = last_valid_position(shares.mask).unsqueeze(1)
        values.scatter_add_(1, last, shares.residual)
        return {"logit_share": self._recent(values, shares.mask)}

    def _gradient(self, interaction: Interaction, item: torch.Tensor) -> dict[str, torch.Tensor]:
        vectors, gradient, mask = self._gradient_at(interaction, item, 1.0)
        return {"gradient_x_input": self._recent((vectors * gradient).sum(dim=2), mask)}

    def _integrated(self, interaction: Interaction, item: torch.Tensor) -> dict[str, torch.Tensor]:
        total = None
        for step in range(INTEGRATION_STEPS):
            share = (step + 0.5) / INTEGRATION_STEPS
            vectors, gradient, mask = self._gradient_at(interaction, item, share)
            total = gradient if total is None else total + gradient
        assert total is not None
        values = (vectors * total).sum(dim=2) / INTEGRATION_STEPS
        return {"integrated_gradients": self._recent(values, mask)}

    @torch.enable_grad()
    def _gradient_at(
        self, interaction: Interaction, item: torch.Tensor, share: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Item vectors of the input, the gradient of the score where they are multiplied by
        ``share``, and valid positions: [B, L, D] twice, [B, L]."""
        with _scaled_input(self._model, share) as seen:
            scores = self._model.full_sort_predict(interaction)
        self.n_forwards += 3
        if not seen:
            raise ModelError("its input does not come from item_embedding.")
        item_seq, vectors, scaled = seen[0]
        score = scores.view(len(item), -1).gather(1, item.unsqueeze(1)).sum()
        (gradient,) = torch.autograd.grad(score, scaled)
        return vectors, gradient, item_seq != 0


@contextmanager
def _scaled_input(model: Any, share: float) -> Iterator[list[tuple[torch.Tensor, ...]]]:
    """Inside, the vectors of the input items are multiplied by ``share``; [MASK] stays as it is.

    Yields:
        What the embedding was asked for, its vectors, and the scaled ones with a gradient.
    """
    seen: list[tuple[torch.Tensor, ...]] = []

    def scale(module: Any, args: tuple[torch.Tensor, ...], output: torch.Tensor) -> Any:
        if args[0].dim() != 2 or seen:
            return None
        vectors = output.detach()
        scaled = vectors * share
        if ends_in_mask(model):
            scaled = torch.where((args[0] == model.mask_token).unsqueeze(2), vectors, scaled)
        scaled.requires_grad_()
        seen.append((args[0], vectors, scaled))
        return scaled

    embedding = getattr(model, "item_embedding", None)
    if embedding is None:
        raise ModelError("it has no item_embedding.")
    handle = embedding.register_forward_hook(scale)
    try:
        yield seen
    finally:
        handle.remove()
