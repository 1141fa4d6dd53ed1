r"""SASRecTAM: SASRec on frozen item vectors with a small trained module.

.. math::
    p = P v, \qquad e = \mathrm{LN}(p + W_2\, \mathrm{GELU}(W_1 p))

with v the frozen vector of an item; ``tam: linear`` is e = p alone.

Reference:
    "Task-adaptive modules", Applied Sciences 2026 (our reading of its abstract, see
    docs/controls.md).
"""

from __future__ import annotations

from typing import Any

import torch

from recbole_residual.model.adapted_embedding import AdaptedEmbedding
from recbole_residual.model.controls import check_choice
from recbole_residual.model.item_vectors import item_matrix
from recbole_residual.model.registry import register_model
from recbole_residual.model.sasrec_residual import SASRecResidual

TAM = ("module", "linear", "off")


@register_model
class SASRecTAM(SASRecResidual):
    """SASRecResidual whose items are frozen vectors, adapted by a trained module.

    Histories are read and the catalogue is scored with the adapted vectors. With ``tam: off`` it is
    SASRecResidual.

    Config keys:
        tam: ``module``, ``linear`` or ``off``.
        item_embedding_file: the frozen vectors (see
            :func:`~recbole_residual.model.item_vectors.read_vectors`); without it they are made of
            the titles and categories in the dataset's ``.item`` file.
        tam_text_size: size of vectors that are made so.
        and those of :class:`SASRecResidual`.
    """

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        self.tam = check_choice("tam", config["tam"], TAM)
        if self.tam == "off":
            return
        size = config["tam_text_size"]
        matrix = torch.from_numpy(item_matrix(config, dataset, 64 if size is None else size))
        embedding = AdaptedEmbedding(matrix, self.hidden_size, self.tam == "module")
        embedding.apply(self._init_weights)
        self.item_embedding = embedding
