"""SASRecPSD: SASRec taught, in training only, by a view of itself that sees later items too.

Reference:
    "Privileged Self-Distillation", 2026 (our reading of its abstract, see docs/controls.md).
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.score import item_vectors
from recbole_residual.model.loss import rows_per_chunk
from recbole_residual.model.objective import next_item_loss, predicted_states, target_list_field
from recbole_residual.model.registry import register_model
from recbole_residual.model.sasrec_residual import SASRecResidual


def privileged_states(model: Any, item_seq: torch.Tensor) -> torch.Tensor:
    """What a SASRec makes of each position from everything but the item that follows it.

    Three streams go through the blocks together. The states of the prefix see earlier positions,
    those of the future see later ones, and the state that predicts the target of position i sees
    itself, the prefix before i and the future from i + 2 on. Nobody sees it, and nothing that it
    sees has seen the target, in any layer.

    Args:
        model: a SASRec with learned positions or none.
        item_seq: item ids, padded with 0 at the end, [B, L].

    Returns:
        torch.Tensor: [B, L, D]; without meaning at padding.
    """
    length = item_seq.shape[1]
    order = torch.arange(length, device=item_seq.device)
    embedded = model.item_embedding(item_seq) + model.position_embedding(order)
    hidden = model.dropout(model.LayerNorm(torch.cat([embedded] * 3, dim=1)))
    query, key = order.unsqueeze(1), order.unsqueeze(0)
    nothing = torch.zeros(length, length, dtype=torch.bool, device=item_seq.device)
    sees = torch.cat(
        [
            torch.cat([key <= query, nothing, nothing], dim=1),
            torch.cat([nothing, key >= query, nothing], dim=1),
            torch.cat([key < query, key >= query + 2, key == query], dim=1),
        ]
    )
    visible = sees & (item_seq > 0).repeat(1, 3).unsqueeze(1)  # [B, 3 L, 3 L]
    mask = torch.where(visible.unsqueeze(1), 0.0, -10000.0).to(hidden.dtype)  # RecBole's mask
    output = model.trm_encoder(hidden, mask, output_all_encoded_layers=True)[-1]
    return output[:, 2 * length :]


def distillation(
    student: torch.Tensor,
    teacher: torch.Tensor,
    targets: torch.Tensor,
    temperature: float,
    topk: int,
) -> torch.Tensor:
    """Gated divergence of the student from the teacher at each position.

    Args:
        student: scores, [T, n_items].
        teacher: scores, without gradient, [T, n_items].
        targets: item ids, [T].
        temperature: divides the scores under the divergence, which is multiplied by its square.
        topk: size of the teacher's list that the student's mass is summed over.

    Returns:
        torch.Tensor: ``gate * KL(teacher || student)``, [T].
    """
    with torch.no_grad():
        log_student, log_teacher = student.log_softmax(1), teacher.log_softmax(1)
        column = targets.unsqueeze(1)
        advantage = (log_teacher - log_student).gather(1, column).squeeze(1).clamp(min=0)
        best = teacher.topk(min(topk, teacher.shape[1]), dim=1).indices
        reachable = log_student.gather(1, best).exp().sum(1)
        gate = (1 - torch.exp(-advantage)) * reachable
        log_soft = (teacher / temperature).log_softmax(1)
    divergence = F.kl_div(
        (student / temperature).log_softmax(1), log_soft, reduction="none", log_target=True
    ).sum(1)
    return gate * divergence * temperature**2


@register_model
class SASRecPSD(SASRecResidual):
    r"""SASRecResidual with privileged self-distillation in training.

    .. math::
        L = L_{rec} + w \cdot \mathrm{mean}_i\; g_i\, \mathrm{KL}(teacher_i \Vert student_i)

    The student is the model itself. The teacher is a momentum average of its weights, without
    dropout and without gradient, that sees the interactions after the target as well (see
    :func:`privileged_states`). Inference is SASRecResidual's; with ``psd_weight: 0``, so is
    training.

    Config keys:
        psd_weight: w.
        psd_temperature: of the divergence.
        psd_momentum: share of the teacher's weights that stays at every step.
        psd_topk: size of the teacher's list in the gate.
        and those of :class:`SASRecResidual`.
    """

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        self.psd_weight = _number(config, "psd_weight", 0.0)
        self.psd_temperature = _number(config, "psd_temperature", 1.0)
        self.psd_momentum = _number(config, "psd_momentum", 0.99)
        self.psd_topk = int(_number(config, "psd_topk", 20))
        if self.psd_weight < 0 or self.psd_temperature <= 0 or self.psd_topk < 1:
            raise ModelError(
                "psd_weight is at least 0, psd_temperature above 0 and psd_topk at least 1; they "
                f"are {self.psd_weight}, {self.psd_temperature} and {self.psd_topk}."
            )
        if not 0 <= self.psd_momentum < 1:
            raise ModelError(f"psd_momentum = {self.psd_momentum} is not usable: from 0, below 1.")
        if self.psd_weight and config["position"] == "rotary":
            raise ModelError(
                "psd_weight above 0 needs positions that are added to the items: the teacher's "
                "three streams share them. Set position: learned or none, or psd_weight: 0."
            )
        # in a list, so that the teacher's blocks are none of the model's own
        self._teacher: list[Any] = []
        self._teacher_weights: dict[str, torch.Tensor] = {}
        if self.psd_weight:
            names = getattr(self, "other_parameter_name", [])
            self.other_parameter_name = [*names, "teacher_weights"]

    @property
    def teacher_weights(self) -> dict[str, torch.Tensor]:
        """The teacher's weights by name, saved with the model; empty before the first step."""
        if not self._teacher:
            return self._teacher_weights
        return {name: weight.detach() for name, weight in self._teacher[0].named_parameters()}

    @teacher_weights.setter
    def teacher_weights(self, weights: dict[str, torch.Tensor]) -> None:
        self._teacher, self._teacher_weights = [], dict(weights)

    @torch.no_grad()
    def teach(self) -> Any:
        """The teacher, one step nearer to the student."""
        if not self._teacher:
            memo: dict[int, Any] = {id(self.sampled_loss): None}  # it holds the dataset
            teacher = copy.deepcopy(self, memo).requires_grad_(False)
            for name, weight in teacher.named_parameters():
                if name in self._teacher_weights:
                    weight.copy_(self._teacher_weights[name])
            self._teacher = [teacher]
        teacher = self._teacher[0].to(next(self.parameters()).device).eval()
        for mine, its in zip(self.parameters(), teacher.parameters()):
            its.mul_(self.psd_momentum).add_(mine, alpha=1 - self.psd_momentum)
        return teacher

    def calculate_loss(self, interaction: Any) -> torch.Tensor:
        """The recommendation loss plus the gated divergence from the teacher."""
        if not self.psd_weight:
            return super().calculate_loss(interaction)
        if target_list_field(self.ITEM_SEQ) not in interaction:
            raise ModelError(
                "psd_weight above 0 needs the interactions after the target, which RecBole's "
                "samples do not hold: set loss_positions: all, or psd_weight: 0."
            )
        states = predicted_states(self, interaction)
        loss = next_item_loss(self, interaction, states)
        teacher = self.teach()
        with torch.no_grad():
            privileged = privileged_states(teacher, interaction[self.ITEM_SEQ])
            privileged = privileged.flatten(0, 1)[states.flat_position]
        return loss + self.psd_weight * self._divergence(states, privileged, item_vectors(teacher))

    def _divergence(
        self, states: Any, privileged: torch.Tensor, teacher_items: torch.Tensor
    ) -> torch.Tensor:
        """The mean over positions, a bounded number of scores at a time."""
        weight = item_vectors(self)

        def of(rows: slice, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            student = torch.matmul(hidden, weight.t())
            with torch.no_grad():
                teacher = torch.matmul(privileged[rows], teacher_items.t())
            return distillation(
                student, teacher, states.targets[rows], self.psd_temperature, self.psd_topk
            ).sum()

        n_rows = len(states.hidden)
        step = rows_per_chunk(n_rows, len(weight), self.logits_chunk, weight.device)
        total = states.hidden.new_zeros(())
        for begin in range(0, n_rows, step):
            rows = slice(begin, begin + step)
            total = total + checkpoint(
                of, rows, states.hidden[rows], weight, use_reentrant=False, preserve_rng_state=False
            )
        return total / n_rows


def _number(config: Any, key: str, default: float) -> float:
    value = config[key]
    return default if value is None else float(value)
