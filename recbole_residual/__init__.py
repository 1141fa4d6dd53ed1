"""recbole-residual: how much a sequential recommender leans on the last item, and why."""

from recbole_residual import compat as _compat  # mends what newer numpy and pandas break first
from recbole_residual.model.residual import residual_alpha, scale_residual
from recbole_residual.model.sasrec_residual import SASRecResidual
from recbole_residual.version import __version__

__all__ = ["SASRecResidual", "__version__", "residual_alpha", "scale_residual"]

_compat.mend_numpy2_names()
