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
    left = {name: value for name, value in vars(x).items() if name != "_accumulator"}  # found before forward
    assert left == before


class Seen(Function):
    """Returns its first argument, and notes what its forward gets."""

    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=oplib.float32)
    def forward(ctx: Any, x: Any, values: Any) -> Any:
        ctx.seen = [getattr(value, "dtype", value) for value in (x, *values)], (x @ x).dtype
        return x * 1

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, g: Any) -> Any:
        return g * 3, None


def test_inputs_are_cast_where_autocast_is_on_which_then_is_off_inside():
    half, whole = oplib.ones(2, 2, dtype=oplib.bfloat16), oplib.ones(2, dtype=oplib.int32)
    for enabled, dtype in ((True, oplib.float32), (False, oplib.bfloat16)):
        x = half.clone().requires_grad_()
        with oplib.autocast("cpu", enabled=enabled):
            y = Seen.apply(x, [half, whole, "text", None])
        seen, product = y.grad_fn.seen
        assert seen == [dtype, dtype, oplib.int32, "text", None]
        assert product == y.dtype == dtype
        y.sum().backward()
        assert (x.grad.dtype, x.grad.tolist()) == (oplib.bfloat16, [[3, 3], [3, 3]])


def test_wide_inputs_keep_their_dtype(with_64_bits: None):
    with oplib.autocast("cpu"):
        y = Seen.apply(oplib.ones(2, 2, dtype=oplib.float64, requires_grad=True), ())
    assert y.dtype == oplib.float64
