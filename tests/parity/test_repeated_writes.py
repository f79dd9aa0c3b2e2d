"""In-place ops after their first calls, when generated code serves plain writes: the others are torch's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import oplib
from oplib.config import config
from tests.threads import run_in_threads

torch = pytest.importorskip("torch")


def warm_up(lib: Any) -> None:
    """Plain writes, until functions have the code for them."""
    for _ in range(3):
        x, y = lib.ones(3), lib.ones(3)
        x.add_(y).add_(2.0).add_(y, alpha=0.5).mul_(y).mul_(0.5).copy_(y).copy_(3.0).addcmul_(y, y, value=2.0)
        x.lerp_(y, 0.5).clamp_(0.0, 5.0).sqrt_().pow_(2).zero_()


def of_view(lib: Any) -> Any:
    base = lib.ones(2, 3)
    row = base[0]
    row.mul_(2.0).add_(lib.ones(3))
    base.t().add_(1.0)
    return base, row, base._version, row._version


def of_base(lib: Any) -> Any:
    base = lib.ones(2, 3)
    row = base[0]
    base.add_(lib.ones(3), alpha=0.5)
    return row, row._version


def of_data(lib: Any) -> Any:
    x = lib.ones(3)
    x.data.add_(1.0)
    x.detach().mul_(x)
    return x, x._version


def recorded(lib: Any) -> Any:
    w = lib.ones(3, requires_grad=True)
    x = lib.ones(3)
    x.add_(1.0).mul_(w).mul_(w).sqrt_()
    x.sum().backward()
    return x, w.grad, x.requires_grad, x._version


def saved(lib: Any) -> Any:
    w, x = lib.ones(3, requires_grad=True), lib.ones(3)
    y = w * x
    x.add_(1.0)
    y.sum().backward()


def of_leaf(lib: Any) -> Any:
    lib.ones(3, requires_grad=True).add_(1.0)


def without_grad(lib: Any) -> Any:
    w = lib.ones(3, requires_grad=True)
    view = w[1:]
    with lib.no_grad():
        w.sub_(lib.ones(3), alpha=0.5).clamp_(0.0, 5.0)
    return w, view, w.requires_grad, w.is_leaf, w._version


def restricted(lib: Any) -> Any:
    w = lib.ones(3, requires_grad=True) * 1
    with lib.no_grad():
        view = w[1:]
        w.mul_(2.0)
    view.mul_(2.0)


def in_inference(lib: Any) -> Any:
    with lib.inference_mode():
        x = lib.ones(3)
        x.add_(x).mul_(0.5)
    return x, x.is_inference()


def of_inference(lib: Any) -> Any:
    with lib.inference_mode():
        x = lib.ones(3)
    x.add_(1.0)


def of_tangents(lib: Any) -> Any:
    forward = lib.autograd.forward_ad
    with forward.dual_level():
        x, y = forward.make_dual(lib.ones(3), lib.ones(3)), lib.ones(3)
        y.add_(x).mul_(3.0)
        return forward.unpack_dual(y)[1]


def of_itself(lib: Any) -> Any:
    x = lib.ones(3)
    return x.add_(x).mul_(x)


def of_zeros(lib: Any) -> Any:
    x, y = lib.zeros(3), lib.zeros(3)
    return x.zero_().add_(1.0), y


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "of a view": of_view,
    "of the base": of_base,
    "of data": of_data,
    "recorded": recorded,
    "of a saved value": saved,
    "of a leaf": of_leaf,
    "of a leaf, without grad mode": without_grad,
    "of a view made without grad mode": restricted,
    "in inference mode": in_inference,
    "of a tensor of inference mode": of_inference,
    "of tangents": of_tangents,
    "of an expanded tensor": lambda lib: lib.ones(1).expand(3).add_(1.0),
    "of another shape": lambda lib: lib.ones(3).add_(lib.ones(2, 3)),
    "of a shape that broadcasts": lambda lib: lib.ones(2, 3).add_(lib.ones(3)),
    "of a lower dtype": lambda lib: lib.tensor([1, 2]).mul_(0.5),
    "of a higher dtype": lambda lib: lib.ones(3).add_(lib.tensor([1, 2, 3])),
    "of another op's dtype": lambda lib: lib.ones(3).lt_(2.0),
    "of itself": of_itself,
    "of nothing": lambda lib: lib.ones(0).add_(1.0).mul_(lib.ones(0)),
    "zeros": of_zeros,
}
REFUSED = {
    "of a saved value",
    "of a leaf",
    "of a view made without grad mode",
    "of a tensor of inference mode",
    "of an expanded tensor",
    "of another shape",
    "of a lower dtype",
}
"""The programs that raise in both, so that an error of another program fails its test."""


def show(value: Any) -> Any:
    if isinstance(value, tuple):
        return [show(one) for one in value]
    return np.asarray(value.detach()).tolist() if hasattr(value, "detach") else value


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
@pytest.mark.parametrize("name", PROGRAMS)
def test_writes_are_torchs_after_the_first_calls(name: str) -> None:
    found: list[Any] = []
    for lib in (oplib, torch):
        warm_up(lib)
        for _ in range(3):
            try:
                found.append(show(PROGRAMS[name](lib)))
            except RuntimeError:
                found.append("refused")
    assert found == found[:1] * 6
    assert (found[0] == "refused") == (name in REFUSED)


def test_a_traced_value_does_not_leave_its_trace_by_a_write() -> None:
    warm_up(oplib)
    x = oplib.ones(3)

    def leak(y: Any) -> Any:
        x.add_(oplib.Tensor.from_array(y))
        return y

    with pytest.raises(RuntimeError, match="a traced value would be stored in a tensor made outside"):
        jax.jit(leak)(np.ones(3, np.float32))
    assert x.tolist() == [1.0] * 3


def test_threads_lose_no_write() -> None:
    warm_up(oplib)
    x, one = oplib.zeros(3), oplib.ones(3)

    def add(number: int) -> None:
        for _ in range(200):
            x.add_(one)

    run_in_threads(add, 8)
    assert x.tolist() == [1600.0] * 3
    assert x._version == 1600


@pytest.mark.fast_path
def test_a_plain_write_makes_no_second_tensor() -> None:
    warm_up(oplib)
    assert config.fast_path
    source = inspect.getsource(oplib.Tensor.add_)
    assert "__storage.array = __output" in source
    assert "__box" not in source
