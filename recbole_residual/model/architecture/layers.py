"""The layers of a model and their labels."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from recbole_residual.model.architecture.blocks import attention_blocks


@dataclass(frozen=True)
class Layer:
    """One layer of a model: an attention block and the feed-forward block behind it.

    Attributes:
        label: "1", "2", ... in a model with one encoder; with the encoder's name before it
            ("item_trm_encoder.1") in a model with several.
        encoder: path of the encoder inside the model, "" for none.
        attention: the attention block.
        feed_forward: the feed-forward block behind it; None if there is none.
    """

    label: str
    encoder: str
    attention: nn.Module
    feed_forward: nn.Module | None


def model_layers(model: nn.Module) -> list[Layer]:
    """The layers of ``model``, first one first.

    Raises:
        NoAttentionError: if there is no attention block.
    """
    blocks = attention_blocks(model)
    paths = {module: path for path, module in model.named_modules()}
    encoders = []
    for block in blocks:
        names = paths[block].split(".")
        while names and names[-1] != "layer":
            names.pop()
        encoders.append(".".join(names[:-1]))
    layers: list[Layer] = []
    for block, encoder in zip(blocks, encoders):
        number = 1 + sum(layer.encoder == encoder for layer in layers)
        label = str(number) if len(set(encoders)) == 1 else f"{encoder}.{number}"
        parent = model.get_submodule(paths[block].rpartition(".")[0])
        layers.append(Layer(label, encoder, block, getattr(parent, "feed_forward", None)))
    return layers
