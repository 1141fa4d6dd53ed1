"""SASRecPSD: SASRec taught, in training only, by a view of itself that sees later items too.

Reference:
    "Privileged Self-Distillation", 2026 (our reading of its abstract, see docs/controls.md).
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable

from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.score import item_vectors
from recbole_residual.model.loss import DEFAULT_LOGITS_CHUNK, rows_per_chunk
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


class Teacher(NamedTuple):
    """What the teacher scores with, without gradient.

    Attributes:
        hidden: its states, [T, D].
        weight: its item vectors, [n_items, D].
    """

    hidden: torch.Tensor
    weight: torch.Tensor


class Gated(NamedTuple):
    """How the divergence is taken.

    Attributes:
        temperature: divides the scores under the divergence, which is multiplied by its square.
        topk: size of the teacher's list that the student's probability is summed over.
        logits_chunk: most scores held at once.
    """

    temperature: float
    topk: int
    logits_chunk: int = DEFAULT_LOGITS_CHUNK


class _GatedDivergence(torch.autograd.Function):
    """Gradients are made in the forward pass, chunk by chunk, so that no score is made twice."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        teacher: Teacher,
        targets: torch.Tensor,
        gated: Gated,
    ) -> torch.Tensor:
        n_rows = len(hidden)
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        total = hidden.new_zeros(())
        step = rows_per_chunk(n_rows, len(weight), gated.logits_chunk, weight.device)
        for begin in range(0, n_rows, step):
            rows = slice(begin, begin + step)
            student_scores = torch.mm(hidden[rows], weight.t())
            teacher_scores = torch.mm(teacher.hidden[rows], teacher.weight.t())
            log_student, log_teacher = student_scores.log_softmax(1), teacher_scores.log_softmax(1)
            column = targets[rows].unsqueeze(1)
            advantage = (log_teacher - log_student).gather(1, column).squeeze(1).clamp(min=0)
            best = teacher_scores.topk(min(gated.topk, len(weight)), dim=1).indices
            reachable = log_student.gather(1, best).exp().sum(1)
            gate = (1 - torch.exp(-advantage)) * reachable
            if gated.temperature != 1:
                log_student = (student_scores / gated.temperature).log_softmax(1)
                log_teacher = (teacher_scores / gated.temperature).log_softmax(1)
            probability = log_teacher.exp()
            divergence = (probability * (log_teacher - log_student)).sum(1)
            total += (gate * divergence).sum()
            errors = log_student.exp_().sub_(probability).mul_(gate.unsqueeze(1))
            torch.mm(errors, weight, out=grad_hidden[rows])
            grad_weight.addmm_(errors.t(), hidden[rows])
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.scale = gated.temperature / n_rows
        return total * (gated.temperature**2 / n_rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * (grad * ctx.scale), grad_weight * (grad * ctx.scale), None, None, None


def gated_divergence(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    teacher: Teacher,
    targets: torch.Tensor,
    gated: Gated,
) -> torch.Tensor:
    r"""The mean over positions of ``gate * T^2 * KL(teacher / T || student / T)``.

    The gate, without gradient, is ``(1 - exp(-max(0, advantage))) * reachable``: how much more
    probable the teacher finds the target, and the student's probability of the teacher's list.

    Args:
        hidden: states of the student, [T, D].
        weight: its item vectors, [n_items, D].
        teacher: the same of the teacher.
        targets: item ids, [T].
        gated: temperature and size of the list.

    Returns:
        torch.Tensor: scalar.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        teacher = Teacher(teacher.hidden.to(weight.dtype), teacher.weight)
        return _GatedDivergence.apply(hidden.to(weight.dtype), weight, teacher, targets, gated)


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
        divergence = gated_divergence(
            states.hidden,
            item_vectors(self),
            Teacher(privileged, item_vectors(teacher)),
            states.targets,
            Gated(self.psd_temperature, self.psd_topk, self.logits_chunk),
        )
        return loss + self.psd_weight * divergence


def _number(config: Any, key: str, default: float) -> float:
    value = config[key]
    return default if value is None else float(value)
