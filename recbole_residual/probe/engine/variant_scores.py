"""Scores of many versions of sequences: by shared prefixes where the model allows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import torch
from recbole.data.interaction import Interaction

from recbole_residual.compat import replaced
from recbole_residual.model.architecture.score import item_vectors
from recbole_residual.model.architecture.window import ends_in_mask
from recbole_residual.probe.engine.variant_states import VariantStates, shares_prefixes
from recbole_residual.probe.engine.variants import Recent, Variants

_SCORES = 2**22
"""Scores held at once."""


@torch.no_grad()
def can_hide_keys(model: Any, interaction: Interaction) -> bool:
    """Whether a key can be hidden from every query of ``model``: its forward asks RecBole's
    ``get_attention_mask`` for a mask, of the item sequence as it was handed over.

    Args:
        model: a RecBole sequential model, in eval mode.
        interaction: any sequences; one of them goes through the model.
    """
    if not hasattr(model, "get_attention_mask") or ends_in_mask(model):
        return False
    asked = []
    attention_mask = model.get_attention_mask

    def ask(item_seq: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        asked.append(item_seq.shape)
        return attention_mask(item_seq, *args, **kwargs)

    one = interaction[:1].to(model.device)
    with replaced(model, "get_attention_mask", ask):
        model.full_sort_predict(one)
    return bool(asked) and all(shape == one[model.ITEM_SEQ].shape for shape in asked)


class VariantScores:
    """Scores the catalogue, or one item, for versions of some sequences.

    Args:
        model: a RecBole sequential model, in eval mode.
        interaction: the sequences, on the model's device, padded to L.
        recent: the same.
    """

    def __init__(self, model: Any, interaction: Interaction, recent: Recent) -> None:
        self._model, self._interaction, self._recent = model, interaction, recent
        self._states = VariantStates(model, recent) if shares_prefixes(model) else None

    def catalogue(self, variants: Variants) -> Iterator[tuple[slice, torch.Tensor]]:
        """Scores of all items, some sequences at a time.

        Yields:
            Which sequences, and their scores, -inf for padding, [rows, V, n_items].
        """
        model = self._model
        batch, n_versions, _ = variants.items.shape
        states = None if self._states is None else self._states.last_states(variants)
        step = max(1, _SCORES // (n_versions * model.n_items))
        for start in range(0, batch, step):
            rows = slice(start, min(start + step, batch))
            if states is None:
                scores = self._plain(variants, rows)
            else:
                scores = states[rows] @ item_vectors(model).t()
            scores[..., 0] = -torch.inf
            yield rows, scores

    def of_item(self, variants: Variants, item: torch.Tensor) -> torch.Tensor:
        """Scores of one item per sequence, [B, V].

        Args:
            variants: [B, V, T].
            item: [B].
        """
        if self._states is not None:
            vectors = item_vectors(self._model)[item]
            return (self._states.last_states(variants) @ vectors.unsqueeze(2)).squeeze(2)
        found = []
        for rows, scores in self.catalogue(variants):
            index = item[rows].view(-1, 1, 1).expand(-1, scores.shape[1], 1)
            found.append(scores.gather(2, index).squeeze(2))
        return torch.cat(found)

    def _plain(self, variants: Variants, rows: slice) -> torch.Tensor:
        """By the model's own forward."""
        model, recent = self._model, self._recent
        items, lengths = variants.items[rows], variants.lengths[rows]
        n_rows, n_versions, width = items.shape
        prefix_len = recent.prefix_len[rows].view(-1, 1, 1)
        length = recent.item_seq.shape[1]
        place = torch.arange(length, device=items.device) - prefix_len  # [R, 1, L]
        in_window = (place >= 0) & (place < lengths.unsqueeze(2))
        window = items.gather(2, place.clamp(0, width - 1).expand(-1, n_versions, -1))
        before = recent.item_seq[rows].unsqueeze(1) * (place < 0)
        item_seq = torch.where(in_window, window, before).flatten(0, 1)
        every = torch.arange(len(recent.items), device=items.device)[rows]
        batch = self._interaction[every.repeat_interleave(n_versions).cpu()].to(items.device)
        if variants.source is not None:
            source = variants.source[rows].gather(
                2, place.clamp(0, width - 1).expand(-1, n_versions, -1)
            )
            at = torch.where(in_window, source + prefix_len, place + prefix_len)
            _move_along(batch, model.ITEM_SEQ, at.flatten(0, 1), item_seq > 0)
        batch[model.ITEM_SEQ] = item_seq
        batch[model.ITEM_SEQ_LEN] = (prefix_len.squeeze(2) + lengths).flatten()
        with ExitStack() as stack:
            if variants.hidden is not None:
                hidden = variants.hidden[rows].gather(
                    2, place.clamp(0, width - 1).expand(-1, n_versions, -1)
                )
                stack.enter_context(_hiding(model, (hidden & in_window).flatten(0, 1)))
            scores = model.full_sort_predict(batch)
        return scores.view(n_rows, n_versions, -1)


def _move_along(
    batch: Interaction, item_seq_field: str, source: torch.Tensor, valid: torch.Tensor
) -> None:
    """Let every field with one number per position, such as ratings, move as the items have.

    Args:
        batch: N sequences.
        item_seq_field: field of the items, which stays.
        source: position that each number comes from, [N, L].
        valid: where there is an item, [N, L].
    """
    for name, values in batch.interaction.items():
        if name != item_seq_field and values.shape == source.shape:
            batch[name] = values.gather(1, source) * valid


def _hiding(model: Any, hidden: torch.Tensor) -> Any:
    """Inside, no query sees the keys of ``hidden``, [N, L]."""
    attention_mask = model.get_attention_mask

    def hide(item_seq: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        mask = attention_mask(item_seq, *args, **kwargs)
        return mask.masked_fill(hidden[:, None, None, :], -10000.0)

    return replaced(model, "get_attention_mask", hide)
