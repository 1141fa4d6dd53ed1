"""recbole-residual: how much a sequential recommender leans on the last item, and why."""

from recbole_residual import compat as _compat  # mends what newer numpy and pandas break first
from recbole_residual.model.residual import residual_alpha, scale_residual
from recbole_residual.model.sasrec_residual import SASRecResidual

__all__ = ["SASRecResidual", "residual_alpha", "scale_residual"]
__version__ = "0.1.0"

_compat.mend_numpy_names()
