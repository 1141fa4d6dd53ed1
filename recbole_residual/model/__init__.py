"""The models: short files, one class each, over RecBole's own."""

from recbole_residual.model.registry import get_model, register_model
from recbole_residual.model.sasrec_residual import SASRecResidual

__all__ = ["SASRecResidual", "get_model", "register_model"]
