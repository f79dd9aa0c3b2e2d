"""A small network whose layers are the ops of this folder."""

from __future__ import annotations

import oplib
from oplib import Tensor
from ops import branches, linear, rms_norm

Params = dict[str, Tensor]
WIDTH = 96


def make_params(inputs: int, classes: int, generator: oplib.Generator) -> Params:
    """Draws the weights; other parameters start at neutral values. All are leaves that require grad."""

    def draw(rows: int, columns: int) -> Tensor:
        return oplib.randn(rows, columns, generator=generator) * rows**-0.5

    params = {
        "stem.weight": draw(inputs, WIDTH),
        "stem.bias": oplib.zeros(WIDTH),
        "block.norm": oplib.ones(WIDTH),
        "block.gate": draw(WIDTH, WIDTH),
        "block.value": draw(WIDTH, WIDTH),
        "head.norm": oplib.ones(WIDTH),
        "head.weight": draw(WIDTH, classes),
    }
    return {name: param.requires_grad_() for name, param in params.items()}


def classify(params: Params, images: Tensor) -> Tensor:
    """Returns the logits [rows, classes] of ``images`` [rows, height, width]."""
    x = images.reshape(len(images), -1)
    x = linear(x, params["stem.weight"], params["stem.bias"], activation="relu")
    gate, value = branches(rms_norm(x, params["block.norm"]), [params["block.gate"], params["block.value"]])
    x = x + gate.sigmoid() * value
    return linear(rms_norm(x, params["head.norm"]), params["head.weight"])
