"""Paths: what writes a target ``t`` with a source ``s``, for torch and oplib."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax
import torch

import oplib

Path = Callable[[Any, Any, Any], Any]
_METHODS = {
    "add_": "t.add_(s)",
    "add_ a number": "t.add_(2)",
    "+=": "t.__iadd__(s)",
    "mul_": "t.mul_(s)",
    "copy_": "t.copy_(s)",
    "fill_": "t.fill_(2)",
    "fill_ with an item": "t.fill_(s.reshape(-1)[0])",
    "zero_": "t.zero_()",
    "neg_": "t.neg_()",
    "clamp_": "t.clamp_(0, 3)",
    "ge_": "t.ge_(s)",
    "addcmul_": "t.addcmul_(s, s)",
    "lerp_": "t.lerp_(s, 0.5)",
    "cumsum_": "t.cumsum_(0)",
    "masked_fill_": "t.masked_fill_(t > 2, 7.)",
    "masked_fill_ by source": "t.masked_fill_(s > 12, 7.)",
    "set all": "t.__setitem__(Ellipsis, s)",
    "set all to a number": "t.__setitem__(Ellipsis, 5.)",
    "set first": "t.__setitem__(0, 5.)",
    "set first to an item": "t.__setitem__(0, s.reshape(-1)[0])",
    "set a slice": "t.__setitem__(slice(0, 2), 5.)",
    "set a mask": "t.__setitem__(t > 2, 5.)",
    "set a list": "t.__setitem__([0, 0], 5.)",
    "index_put_": "t.index_put_((lib.tensor([0]),), s.reshape(-1)[:1].reshape(()))",
    "index_put_ sums": "t.index_put_((lib.tensor([0, 0]),), lib.tensor(1.), accumulate=True)",
    "index_add_": "t.index_add_(0, lib.tensor([0]), s[:1])",
    "index_fill_": "t.index_fill_(0, lib.tensor([0]), 3.)",
    "index_copy_": "t.index_copy_(0, lib.tensor([0]), s[:1])",
    "scatter_": "t.scatter_(0, zeros_like_index(s), s)",
    "scatter_add_": "t.scatter_add_(0, zeros_like_index(s), s)",
    "masked_scatter_": "t.masked_scatter_(t > 2, s)",
    "put_": "t.put_(lib.tensor([0]), s.reshape(-1)[:1])",
    "data": "t.data.sub_(s)",
    "detach": "t.detach().add_(s)",
    "a view": "t.reshape(-1).add_(1)",
    "set_": "t.set_(s)",
    "resize_": "t.resize_(tuple(t.shape))",
    "data = source": "setattr(t, 'data', s)",
    "uniform_": "t.uniform_(5, 5)",
}
_OUTS = {
    "out of add": "lib.add(s, 1, out=t)",
    "out of add of itself": "lib.add(t, s, out=t)",
    "out of neg": "lib.neg(s, out=t)",
    "out of cumsum": "lib.cumsum(s, 0, out=t)",
    "out of sum": "lib.sum(s.unsqueeze(0), 0, out=t)",
    "out of cat": "lib.cat([s], 0, out=t)",
    "out of where": "lib.where(t > 2, t, s, out=t)",
    "out of sort": "lib.sort(s, 0, out=(t, zeros_like_index(s)))",
    "out of gather": "lib.gather(s, 0, zeros_like_index(s), out=t)",
    "out of frexp": "lib.frexp(s, out=(t, lib.zeros(tuple(s.shape), dtype=lib.int32)))",
}


def _compile(code: str) -> Path:
    compiled = compile(code, code, "eval")

    def path(lib: Any, t: Any, s: Any) -> Any:
        def zeros_like_index(x: Any) -> Any:
            return lib.zeros(tuple(x.shape), dtype=lib.int64 if lib is torch else lib.int32)

        return eval(compiled, {"lib": lib, "t": t, "s": s, "zeros_like_index": zeros_like_index})

    return path


def _leaf_with_grad(lib: Any, grad: Any) -> Any:
    leaf = lib.ones(tuple(grad.shape), dtype=grad.dtype).requires_grad_()
    leaf.grad = grad
    return leaf


def _sum_into_grad(run: Callable[[Any, Any], Any]) -> Path:
    def path(lib: Any, t: Any, s: Any) -> Any:
        leaf = _leaf_with_grad(lib, t)
        run(leaf, s)
        return leaf.grad

    return path


def _sum_into_one_grad_twice(lib: Any, t: Any, s: Any) -> Any:
    first, second = _leaf_with_grad(lib, t), _leaf_with_grad(lib, t.view(tuple(t.shape)))
    (first * 2 + second * 3).sum().backward()


def _clip(lib: Any, t: Any, s: Any) -> Any:
    lib.nn.utils.clip_grad_norm_([_leaf_with_grad(lib, t)], 1.0)


def _make_optimizer(lib: Any, parameters: list[Any], **options: Any) -> Any:
    if lib is torch:
        return torch.optim.SGD(parameters, lr=0.5, **options)
    return oplib.optim.Optimizer(optax.sgd(0.5, **options), parameters)


def _zero_grad(lib: Any, t: Any, s: Any) -> Any:
    _make_optimizer(lib, [_leaf_with_grad(lib, t)]).zero_grad(set_to_none=False)


def _step(**options: Any) -> Path:
    def path(lib: Any, t: Any, s: Any) -> Any:
        parameter = t if t.requires_grad else t.detach().requires_grad_()
        parameter.grad = s.detach()
        _make_optimizer(lib, [parameter], **options).step()

    return path


def _step_of_two(lib: Any, t: Any, s: Any) -> Any:
    both = [t.detach().requires_grad_(), s.detach().requires_grad_()]
    for parameter in both:
        parameter.grad = lib.ones(tuple(parameter.shape))
    _make_optimizer(lib, both).step()


def _mark_dirty(lib: Any, t: Any, s: Any) -> Any:
    class Add(lib.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.mark_dirty(a)
            return a.add_(b)

        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    return Add.apply(t, s)


def make_ops() -> dict[str, tuple[Any, Any]]:
    """Returns ops that write their arguments: those of oplib by kind of kernel, and what they do in torch."""

    @oplib.custom_op("writes::on_arrays", mutates_args=("a",))
    def on_arrays(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        return a + b, (a * b).sum()

    @oplib.custom_op("writes::two_on_arrays", mutates_args=("a", "b"))
    def two_on_arrays(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
        return a + 1, b * 2

    @oplib.custom_op("writes::on_tensors", mutates_args=("a",))
    def on_tensors(a: oplib.Tensor, b: oplib.Tensor) -> oplib.Tensor:
        a.add_(b)
        return (a * b).sum()

    @oplib.custom_op("writes::two_on_tensors", mutates_args=("a", "b"))
    def two_on_tensors(a: oplib.Tensor, b: oplib.Tensor) -> None:
        a.add_(1)
        b.mul_(2)

    @oplib.custom_op("writes::on_host", mutates_args=("a",))
    def on_host(a: np.ndarray, b: np.ndarray) -> None:
        a += b

    def add(a: Any, b: Any) -> Any:
        product = (a * b).sum()
        a.add_(b)
        return product

    def add_first(a: Any, b: Any) -> Any:
        a.add_(b)
        return (a * b).sum()

    def change_both(a: Any, b: Any) -> None:
        a.add_(1)
        b.mul_(2)

    return {
        "op on arrays": (on_arrays, add),
        "op on arrays, two": (two_on_arrays, change_both),
        "op on tensors": (on_tensors, add_first),
        "op on tensors, two": (two_on_tensors, change_both),
        "op on the host": (on_host, lambda a, b: add(a, b) and None),
    }


GRADS: dict[str, Path] = {
    "sum into grad": _sum_into_grad(lambda leaf, s: (leaf * leaf * 2).sum().backward()),
    "sum of an expanded gradient": _sum_into_grad(lambda leaf, s: leaf.sum().backward()),
    "sum of the source": _sum_into_grad(lambda leaf, s: leaf.backward(s)),
    "two sums": _sum_into_grad(lambda leaf, s: (leaf.sum() + (leaf * leaf).sum()).backward()),
    "sum of a part": _sum_into_grad(lambda leaf, s: leaf.reshape(-1)[:1].sum().backward()),
    "recorded sum": _sum_into_grad(lambda leaf, s: (leaf * leaf).sum().backward(create_graph=True)),
    "sums into one grad": _sum_into_one_grad_twice,
}
PATHS: dict[str, Path] = {
    **{name: _compile(code) for name, code in {**_METHODS, **_OUTS}.items()},
    **GRADS,
    "clip_grad_norm_": _clip,
    "zero_grad": _zero_grad,
    "step": _step(),
    "step with momentum": _step(momentum=0.9),
    "step of two parameters": _step_of_two,
    "mark_dirty": _mark_dirty,
}
OPS = ["op on arrays", "op on arrays, two", "op on tensors", "op on tensors, two", "op on the host"]


def find_path(name: str) -> tuple[Path, Path]:
    """Returns a path for oplib and for torch. Those of ops are registered anew."""
    if name in PATHS:
        return PATHS[name], PATHS[name]
    own, plain = make_ops()[name]
    return (lambda lib, t, s: own(t, s)), (lambda lib, t, s: plain(t, s))
