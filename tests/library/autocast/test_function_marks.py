"""``custom_fwd`` and ``custom_bwd``."""

from typing import Any

import pytest

import oplib
from oplib.amp import custom_bwd, custom_fwd
from oplib.autograd import Function
from oplib.errors import AutogradError


class Square(Function):
    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=oplib.float32)
    def forward(x: Any) -> Any:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g * ctx.saved_tensors[0]


@pytest.mark.parametrize("enabled", [True, False])
def test_a_marked_forward_without_ctx_is_refused_and_leaves_its_argument_as_it_was(enabled):
    x = oplib.ones(2, requires_grad=True)
    before = dict(vars(x))
    with (
        oplib.autocast("cpu", enabled=enabled),
        pytest.raises(AutogradError, match="Write forward"),
    ):
        Square.apply(x)
    assert vars(x) == before
