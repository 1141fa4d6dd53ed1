"""The models: short files, one class each, over RecBole's own."""

from recbole_residual.model.bert4rec_residual import BERT4RecResidual
from recbole_residual.model.bsarec import BSARec, BSARecResidual
from recbole_residual.model.duorec import DuoRec, DuoRecResidual
from recbole_residual.model.gru4rec_residual import GRU4RecResidual
from recbole_residual.model.registry import get_model, register_model
from recbole_residual.model.sasrec_psd import SASRecPSD
from recbole_residual.model.sasrec_residual import SASRecResidual
from recbole_residual.model.sasrec_tam import SASRecTAM
from recbole_residual.model.sasrec_uniform import SASRecUniform
from recbole_residual.model.set_rec import SetRec

__all__ = [
    "BERT4RecResidual",
    "BSARec",
    "BSARecResidual",
    "DuoRec",
    "DuoRecResidual",
    "GRU4RecResidual",
    "SASRecPSD",
    "SASRecResidual",
    "SASRecTAM",
    "SASRecUniform",
    "SetRec",
    "get_model",
    "register_model",
]
