"""SASRecUniform: SASRec without learned attention weights.

Reference:
    Kozaki et al. "Revisiting the Role of Learned Attention Weighting in SASRec." SIGIR 2026.
"""

from __future__ import annotations

from recbole_residual.model.registry import register_model
from recbole_residual.model.sasrec_residual import SASRecResidual


@register_model
class SASRecUniform(SASRecResidual):
    """SASRec in which every position averages its valid prefix, in training and at inference.

    Everything else is SASRec's: values, output layer, residuals, dropout of the attention weights,
    feed-forward blocks, position embedding. Query and key layers keep their parameters, so that the
    same seed initialises both models alike, but nothing reads them.

    Config keys:
        those of :class:`SASRecResidual`, ``attention`` always being ``uniform``.
    """

    attention_choices = ("uniform",)
    attention_in_training = "uniform"
