r"""SetRec: a history as a set, which no shuffle changes.

.. math::
    h = \mathrm{LN}(\mathrm{pool}_j\, \phi(e_j + r_j w)), \qquad o = \mathrm{LN}(h + \rho(h))

with e the item embedding, r its rating where there is one, :math:`\phi` and :math:`\rho` two layers
each, and a pool over all items of the history: their sum, or attention with a learned query in each
head. There are no positions and no order.

Reference:
    Zaheer et al. "Deep Sets." NeurIPS 2017 (sum decomposition).
    Lee et al. "Set Transformer." ICML 2019 (pooling by a learned query).
    "SetCDR", SIGIR 2026 (our reading of its abstract, in one domain; see docs/controls.md).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from recbole.model.abstract_recommender import SequentialRecommender
from torch import nn

from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.score import item_vectors
from recbole_residual.model.controls import check_choice
from recbole_residual.model.loss import DEFAULT_LOGITS_CHUNK, linear_cross_entropy, pairwise_loss
from recbole_residual.model.objective import all_positions_loss, target_list_field
from recbole_residual.model.ratings import RATINGS, has_ratings, wanted_rating_field
from recbole_residual.model.registry import register_model

POOLING = ("sum", "attention")


class SumPool(nn.Module):
    """The sum of a set."""

    def forward(self, elements: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        """Elements [B, L, D], which of them there are [B, L] -> [B, D]."""
        return (elements * valid.unsqueeze(-1)).sum(dim=1)

    def prefixes(self, elements: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        """The pool of the first i elements, for every i, [B, L, D]."""
        return (elements * valid.unsqueeze(-1)).cumsum(dim=1)


class AttentionPool(nn.Module):
    """Attention over a set with one learned query per head.

    Args:
        hidden_size: D.
        n_heads: number of heads; divides D.
    """

    def __init__(self, hidden_size: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Parameter(torch.randn(n_heads, hidden_size // n_heads))
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def _scores(self, elements: torch.Tensor) -> torch.Tensor:
        """[B, H, L]"""
        key = self.key(elements).unflatten(-1, (self.n_heads, -1))
        return torch.einsum("hw,bjhw->bhj", self.query, key) / math.sqrt(key.shape[-1])

    def forward(self, elements: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        """Elements [B, L, D], which of them there are [B, L] -> [B, D]."""
        scores = self._scores(elements).masked_fill(~valid.unsqueeze(1), -torch.inf)
        value = self.value(elements).unflatten(-1, (self.n_heads, -1))
        pooled = torch.einsum("bhj,bjhw->bhw", scores.softmax(-1), value)
        return self.dense(pooled.flatten(1))

    def prefixes(self, elements: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
        """The pool of the first i elements, for every i, [B, L, D]; the first is there."""
        length = elements.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=elements.device).triu_(1)
        hidden = future | ~valid[:, None, None, :]
        scores = self._scores(elements).unsqueeze(2).expand(-1, -1, length, -1)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        value = self.value(elements).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        return self.dense(torch.matmul(weights, value).transpose(1, 2).flatten(-2))


class RatingVector(nn.Module):
    """What the rating of an item adds to its vector: ``(r - mean) / std`` times a learned vector.

    Args:
        hidden_size: D.
        ratings: of the training targets, [n]; their mean and standard deviation are kept.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, hidden_size: int, ratings: torch.Tensor) -> None:
        super().__init__()
        ratings = ratings.double()
        std = ratings.std(unbiased=False)
        self.register_buffer("mean", ratings.mean().float())
        self.register_buffer("std", torch.where(std > 0, std, 1.0).float())
        self.direction = nn.Linear(1, hidden_size, bias=False)

    def forward(self, rating_seq: torch.Tensor) -> torch.Tensor:
        """Ratings [B, L] -> [B, L, D]."""
        return self.direction(((rating_seq - self.mean) / self.std).unsqueeze(-1))


def in_order(
    item_seq: torch.Tensor, rating_seq: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The one order in which all orders of a set are summed up: by item, then by rating.

    Args:
        item_seq: item ids, padded with 0 at the end, [B, L].
        rating_seq: their ratings, [B, L], or None.

    Example:
        >>> items, ratings = in_order(torch.tensor([[3, 5, 3]]), torch.tensor([[2.0, 9.0, 1.0]]))
        >>> items.tolist(), ratings.tolist()
        ([[5, 3, 3]], [[9.0, 1.0, 2.0]])
    """
    if rating_seq is None:
        return item_seq.sort(dim=1, descending=True).values, None  # padding, 0, comes last
    by_rating = rating_seq.argsort(dim=1)
    by_item = item_seq.gather(1, by_rating).argsort(dim=1, descending=True, stable=True)
    order = by_rating.gather(1, by_item)
    return item_seq.gather(1, order), rating_seq.gather(1, order)


@register_model
class SetRec(SequentialRecommender):
    """Recommends from the set of a user's items, trained on all prefixes.

    Items are put in the order of their ids before they are summed up, so that two orders of the
    same items give the same scores, bit for bit. A repeated item counts as often as it is there.
    Ratings, as ``RATING_FIELD`` names them, go with their items where the dataset has them. It has
    no attention between positions and no residual to scale: ``alpha`` and mixing ratios are not
    defined for it.

    Config keys:
        pooling: ``sum`` or ``attention``.
        ratings: ``read``, where the dataset has them, or ``off``.
        hidden_size, inner_size, n_heads, dropout_prob, initializer_range, loss_type.
    """

    can_train_at_all_positions = True
    reads_ratings = True
    sampled_loss = None
    config_defaults = {
        "hidden_size": 64,
        "inner_size": 256,
        "n_heads": 2,
        "dropout_prob": 0.2,
        "layer_norm_eps": 1e-12,
        "initializer_range": 0.02,
        "loss_type": "CE",
    }

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        size, inner, n_heads = config["hidden_size"], config["inner_size"], config["n_heads"]
        if size % n_heads:
            raise ModelError(f"hidden_size = {size} cannot be shared by n_heads = {n_heads}.")
        self.loss_type = check_choice("loss_type", config["loss_type"], ("CE", "BPR"))
        self.pooling = check_choice("pooling", config["pooling"], POOLING)
        check_choice("ratings", config["ratings"] or RATINGS[0], RATINGS)
        self.initializer_range = config["initializer_range"]
        self.logits_chunk = config["logits_chunk"] or DEFAULT_LOGITS_CHUNK
        self.neg_prefix = config["NEG_PREFIX"]
        self.item_embedding = nn.Embedding(self.n_items, size, padding_idx=0)
        self.element = nn.Sequential(nn.Linear(size, inner), nn.GELU(), nn.Linear(inner, size))
        self.pool = SumPool() if self.pooling == "sum" else AttentionPool(size, n_heads)
        self.pool_norm = nn.LayerNorm(size, eps=config["layer_norm_eps"])
        self.output = nn.Sequential(nn.Linear(size, inner), nn.GELU(), nn.Linear(inner, size))
        self.output_norm = nn.LayerNorm(size, eps=config["layer_norm_eps"])
        self.dropout = nn.Dropout(config["dropout_prob"])
        self.rating_seq_field: str | None = None
        rating = wanted_rating_field(config, type(self))
        if rating is not None and has_ratings(dataset, rating):
            self.rating_seq_field = f"{rating}{config['LIST_SUFFIX']}"
            self.rating = RatingVector(size, dataset.inter_feat[rating])
        self.apply(self._init_weights)

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(mean=0.0, std=self.initializer_range)
        if isinstance(module, nn.Linear) and module.bias is not None:
            module.bias.data.zero_()

    def _history(self, interaction: Any) -> tuple[torch.Tensor, ...]:
        """What :meth:`forward` takes, out of a batch."""
        fields = (self.ITEM_SEQ, self.ITEM_SEQ_LEN, self.rating_seq_field)
        return tuple(interaction[field] for field in fields if field is not None)

    def _elements(self, item_seq: torch.Tensor, rating_seq: torch.Tensor | None) -> torch.Tensor:
        items = self.item_embedding(item_seq)
        if rating_seq is not None:
            items = items + self.rating(rating_seq)
        return self.element(self.dropout(items))

    def _read(self, pooled: torch.Tensor) -> torch.Tensor:
        hidden = self.pool_norm(pooled)
        return self.output_norm(hidden + self.dropout(self.output(hidden)))

    def forward(
        self,
        item_seq: torch.Tensor,
        item_seq_len: torch.Tensor,
        rating_seq: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The representation of each history, whatever its order.

        Args:
            item_seq: item ids, padded with 0, [B, L].
            item_seq_len: number of items, not needed, [B].
            rating_seq: ratings of the items, [B, L], if the model reads ratings.

        Returns:
            torch.Tensor: [B, D].
        """
        item_seq, rating_seq = in_order(item_seq, rating_seq)
        return self._read(self.pool(self._elements(item_seq, rating_seq), item_seq > 0))

    def all_positions(
        self,
        item_seq: torch.Tensor,
        item_seq_len: torch.Tensor,
        rating_seq: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The representation of every prefix, [B, L, D]."""
        return self._read(self.pool.prefixes(self._elements(item_seq, rating_seq), item_seq > 0))

    def calculate_loss(self, interaction: Any) -> torch.Tensor:
        """The loss of every prefix on whole sequences, of the history on RecBole's samples."""
        history = self._history(interaction)
        if target_list_field(self.ITEM_SEQ) in interaction:
            return all_positions_loss(self, interaction, *history[2:])
        hidden = self.forward(*history)
        targets, weight = interaction[self.POS_ITEM_ID], item_vectors(self)
        if self.loss_type == "BPR":
            negatives = interaction[self.NEG_ITEM_ID].unsqueeze(1)
            return pairwise_loss(hidden, weight, targets, negatives)
        return linear_cross_entropy(hidden, weight, targets, self.logits_chunk)

    def predict(self, interaction: Any) -> torch.Tensor:
        """Scores of one item for each history, [B]."""
        hidden = self.forward(*self._history(interaction))
        return (hidden * self.item_embedding(interaction[self.ITEM_ID])).sum(dim=-1)

    def full_sort_predict(self, interaction: Any) -> torch.Tensor:
        """Scores of the catalogue for each history, [B, n_items]."""
        hidden = self.forward(*self._history(interaction))
        return torch.matmul(hidden, item_vectors(self).t())
