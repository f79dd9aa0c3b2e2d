"""The lines of random programs for torch and oplib: ops, views, writes, Functions and ops of a user."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Line = Callable[..., Any]

UNARY: dict[str, Line] = {
    "sin": lambda lib, a: a.sin(),
    "tanh": lambda lib, a: a.tanh(),
    "neg": lambda lib, a: -a,
    "square": lambda lib, a: a.tanh() * a.tanh(),
    "abs": lambda lib, a: a.abs(),
    "relu": lambda lib, a: a.relu(),
    "sigmoid": lambda lib, a: a.sigmoid(),
    "sqrt": lambda lib, a: a.abs().sqrt(),
    "clamp": lambda lib, a: a.clamp(-0.5, 1.0),
    "nan_to_num": lambda lib, a: lib.nan_to_num(a, 0.5, 1.0, -1.0),
    "sign": lambda lib, a: a.sign(),
    "exp": lambda lib, a: a.tanh().exp(),
    "log1p": lambda lib, a: a.abs().log1p(),
    "pow 0": lambda lib, a: a.tanh() ** 0,
    "pow 3": lambda lib, a: a.tanh() ** 3,
    "rsub": lambda lib, a: 1 - a,
    "rdiv": lambda lib, a: 0.5 / (a.abs() + 1),
    "half": lambda lib, a: a.half(),
    "bfloat16": lambda lib, a: a.bfloat16(),
    "float": lambda lib, a: a.float(),
    "same dtype": lambda lib, a: a.to(a.dtype),
    "clone": lambda lib, a: a.clone(),
    "contiguous": lambda lib, a: a.contiguous(),
    "detach": lambda lib, a: a.detach(),
    "data": lambda lib, a: a.data,
    "softmax": lambda lib, a: a.softmax(-1),
    "logsumexp": lambda lib, a: a.logsumexp(-1),
    "cumsum": lambda lib, a: a.cumsum(-1) * 0.5,
    "cummax": lambda lib, a: a.cummax(-1)[0] if a.numel() else a * 1,  # torch returns the leaf as gradient
    "sum": lambda lib, a: a.sum(),
    "sum 0": lambda lib, a: a.sum(0),
    "mean": lambda lib, a: a.mean(),
    "max": lambda lib, a: a.max(),
    "amin": lambda lib, a: a.amin(-1),
    "max 0": lambda lib, a: a.max(0)[0],
    "min -1": lambda lib, a: a.min(-1)[0],
    "median": lambda lib, a: a.median(),
    "sort": lambda lib, a: a.sort(-1)[0],
    "topk": lambda lib, a: a.topk(1, -1)[0],
    "prod": lambda lib, a: a.tanh().prod(),
    "norm": lambda lib, a: lib.linalg.vector_norm(a),
    "std": lambda lib, a: a.std(),
    "flip": lambda lib, a: a.flip(0),
    "roll": lambda lib, a: a.roll(1),
    "tril": lambda lib, a: a.tril(),
    "where nan": lambda lib, a: lib.where(a.isnan(), lib.zeros_like(a), a),
    "masked_fill": lambda lib, a: a.masked_fill(a > 0.5, 0.25),
    "zeros_like": lambda lib, a: lib.zeros_like(a),
    "random": lambda lib, a: a + lib.rand(a.shape, generator=lib.Generator().manual_seed(3)) * 0,
    "dropout": lambda lib, a: lib.nn.functional.dropout(a, 0.0),
    "layer_norm": lambda lib, a: lib.nn.functional.layer_norm(a, a.shape[-1:]),
    "gelu": lambda lib, a: lib.nn.functional.gelu(a, approximate="tanh"),  # of inf torch's other is nan
    "silu": lambda lib, a: lib.nn.functional.silu(a),
    "matmul": lambda lib, a: a @ a.mT,
    "linear": lambda lib, a: lib.nn.functional.linear(a, lib.ones(2, a.shape[-1], dtype=a.dtype) * 0.5),
    "gather": lambda lib, a: a.gather(-1, (a * 0).nan_to_num(0, 0, 0).long()),
    "index": lambda lib, a: a[[0, 0]],
    "mask": lambda lib, a: a.nan_to_num() * (a == a.max()),  # XLA: inf * False is 0
}
VIEWS: dict[str, Line] = {
    "t": lambda lib, a: a.mT if a.ndim > 1 else a.view(-1),
    "first": lambda lib, a: a[0],
    "last column": lambda lib, a: a[..., -1],
    "slice": lambda lib, a: a[1:],
    "steps": lambda lib, a: a[..., ::2],
    "flat": lambda lib, a: a.view(-1),
    "reshape": lambda lib, a: a.reshape(-1),
    "unsqueeze": lambda lib, a: a.unsqueeze(0),
    "squeeze": lambda lib, a: a.squeeze(),
    "expand": lambda lib, a: a.expand(2, *a.shape),
    "narrow": lambda lib, a: a.narrow(0, 0, 1),
    "diagonal": lambda lib, a: a.diagonal(),
    "unbind": lambda lib, a: a.unbind(0)[-1],
    "split": lambda lib, a: a.split(1)[0],
    "as_strided": lambda lib, a: a.as_strided((1,), (1,)),
    "view_as": lambda lib, a: a.view_as(a),
    "none": lambda lib, a: a[None, ..., None],
}
BINARY: dict[str, Line] = {
    "add": lambda lib, a, b: a + b,
    "sub": lambda lib, a, b: lib.sub(a, b, alpha=0.5),
    "mul": lambda lib, a, b: a.tanh() * b,
    "product": lambda lib, a, b: a * b.tanh(),
    "div": lambda lib, a, b: a / (b.abs() + 1),
    "maximum": lambda lib, a, b: lib.maximum(a, b),
    "minimum": lambda lib, a, b: lib.minimum(a, b),
    "where": lambda lib, a, b: lib.where(a > b, a, b),
    "where x": lambda lib, a, b: lib.where(a > 0, a, 0.5),
    "atan2": lambda lib, a, b: lib.atan2(a, b),
    "lerp": lambda lib, a, b: lib.lerp(a, b, 0.25),
    "same": lambda lib, a, b: a.sin() * a.sin(),
    "cat": lambda lib, a, b: lib.cat([a, b]),
    "stack": lambda lib, a, b: lib.stack([a, b]),
    "addcmul": lambda lib, a, b: lib.addcmul(a, a.tanh(), b.tanh(), value=0.5),
    "pow": lambda lib, a, b: (a.sigmoid() + 0.5) ** b.tanh(),
    "fmax": lambda lib, a, b: lib.fmax(a, b),
    "mse": lambda lib, a, b: lib.nn.functional.mse_loss(a, b),
    "huber": lambda lib, a, b: lib.nn.functional.smooth_l1_loss(a, b),
    "outer": lambda lib, a, b: lib.outer(a.reshape(-1)[:2], b.reshape(-1)[:3]),
    "matmul": lambda lib, a, b: a @ b,
    "expand_as": lambda lib, a, b: a.expand_as(b),
    "clamp": lambda lib, a, b: a.clamp(max=b),
    "copysign": lambda lib, a, b: lib.copysign(
        a.clamp(-9, 9).abs() + 0.5, b.nan_to_num() + 0.3
    ),  # no nan, inf or 0
}
WRITES: dict[str, Line] = {
    "add_": lambda lib, a, b: a.add_(b),
    "sub_": lambda lib, a, b: a.sub_(b, alpha=0.5),
    "mul_": lambda lib, a, b: a.mul_(b.tanh()),
    "mul detached": lambda lib, a, b: a.mul_(b.detach().tanh()),
    "div_": lambda lib, a, b: a.div_(b.abs() + 1),
    "copy_": lambda lib, a, b: a.copy_(b),
    "zero_": lambda lib, a, b: a.zero_(),
    "fill_": lambda lib, a, b: a.fill_(0.5),
    "tanh_": lambda lib, a, b: a.tanh_(),
    "relu_": lambda lib, a, b: a.relu_(),
    "sigmoid_": lambda lib, a, b: a.sigmoid_(),
    "exp_": lambda lib, a, b: a.clamp_(max=1.0).exp_(),
    "clamp_": lambda lib, a, b: a.clamp_(-0.5, 0.5),
    "abs_": lambda lib, a, b: a.abs_(),
    "first": lambda lib, a, b: a[0].mul_(0.5),
    "set first": lambda lib, a, b: a.__setitem__(0, 0.25),
    "set last": lambda lib, a, b: a.__setitem__((..., -1), b.sum().to(a.dtype)),
    "set mask": lambda lib, a, b: a.__setitem__(a > 0.5, 0.125),
    "set list": lambda lib, a, b: a.__setitem__([0], 1.5),
    "masked_fill_": lambda lib, a, b: a.masked_fill_(a > 0.5, 0.25),
    "detach write": lambda lib, a, b: a.detach().mul_(0.5),
    "out": lambda lib, a, b: lib.add(a.detach(), 1, out=a),
    "lerp_": lambda lib, a, b: a.lerp_(b, 0.25),
    "addcmul_": lambda lib, a, b: a.addcmul_(b.tanh(), b.tanh(), value=0.5),  # a itself: torch refuses
    "index_add_": lambda lib, a, b: a.index_add_(0, lib.tensor([0]), a[:1].detach().clone()),
    "index_fill_": lambda lib, a, b: a.index_fill_(0, lib.tensor([0]), 0.5),
    "cumsum_": lambda lib, a, b: a.cumsum_(-1),
    "pow_": lambda lib, a, b: a.pow_(2),
    "detach_": lambda lib, a, b: a.detach_(),
    "requires_grad_": lambda lib, a, b: a.requires_grad_(),
    "unsqueeze_": lambda lib, a, b: a.unsqueeze_(0).squeeze_(0),
}


# Functions and ops of a user ---------------------------------------------------------------------


def make_functions(lib: Any) -> dict[str, Line]:  # noqa: C901  a list of classes
    """Returns calls of Functions, by name."""

    class Doubled(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    class Sine(lib.autograd.Function):
        """Writes into one of two arguments, and saves both."""

        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            old = x.clone()
            x.add_(y.sum().to(x.dtype))
            ctx.mark_dirty(x)
            ctx.save_for_backward(old, y)
            return x, old.sin()

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            old, y = ctx.saved_tensors
            return first + second * old.cos(), (first.sum().to(y.dtype)).expand(y.shape)

    class Kept(lib.autograd.Function):
        """Saves its input and its output."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.tanh()
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            _, y = ctx.saved_tensors
            return grad * (1 - y * y)

    class Marked(lib.autograd.Function):
        """Gives a constant beside its result, and takes None for a gradient."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            sign = x.sign()
            ctx.mark_non_differentiable(sign)
            return x * 2, sign, x.abs()

        @staticmethod
        def backward(ctx: Any, first: Any, _: Any, third: Any) -> Any:
            if first is None and third is None:
                return None
            return (0 if first is None else first * 2) + (0 if third is None else third)

    class Viewed(lib.autograd.Function):
        """Returns a view of its input."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.view(-1)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad.view(grad.shape) * 1

    class Same(lib.autograd.Function):
        """Returns its input."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3

    return {
        "Doubled": lambda lib, a, b: Doubled.apply(a),
        "Sine": lambda lib, a, b: Sine.apply(a, b),
        "Kept": lambda lib, a, b: Kept.apply(a),
        "Marked": lambda lib, a, b: Marked.apply(a),
        "Viewed": lambda lib, a, b: Viewed.apply(a.view(-1)),
        "Same": lambda lib, a, b: Same.apply(a),
    }


def make_ops(lib: Any) -> dict[str, Line]:
    """Registers ops, and returns calls of them by name."""
    is_torch = lib.__name__ == "torch"
    register = lib.library.custom_op

    def scale(x: Any, factor: float) -> Any:
        return x * factor

    def store(x: Any, out: Any) -> None:
        out.copy_(x)

    def bump(out: Any) -> Any:
        out.add_(1)
        return out * 2

    Tensor = lib.Tensor
    scale.__annotations__ = {"x": Tensor, "factor": float, "return": Tensor}
    store.__annotations__ = {"x": Tensor, "out": Tensor, "return": None}
    bump.__annotations__ = {"out": Tensor, "return": Tensor}
    scaled = register("soak_torch::scale", scale, mutates_args=())
    stored = register("soak_torch::store", store, mutates_args=("out",))
    bumped = register("soak_torch::bump", bump, mutates_args=("out",))

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = inputs[1]

    scaled.register_autograd(lambda ctx, grad: (grad * ctx.factor, None), setup_context=keep)
    if is_torch:
        scaled.register_fake(lambda x, factor: lib.empty_like(x))
        bumped.register_fake(lambda out: lib.empty_like(out))
    return {
        "scale": lambda lib, a, b: scaled(a, 0.5),
        "store": lambda lib, a, b: stored(b, a.detach()),
        "bump": lambda lib, a, b: bumped(a.detach()),
    }


# Saved-tensor hooks -------------------------------------------------------------------------------


def pack_to_numpy(tensor: Any) -> Any:
    return tensor.detach().float().numpy().copy(), tensor.dtype


def make_hooks(lib: Any) -> dict[str, tuple[Line, Line]]:
    """Returns pairs of hooks for saved tensors, by name."""

    def unpack_from_numpy(packed: Any) -> Any:
        return lib.from_numpy(packed[0].copy()).to(packed[1])

    def write(tensor: Any) -> Path:
        buffer = io.BytesIO()
        lib.save(tensor.detach(), buffer)
        with tempfile.NamedTemporaryFile(delete=False) as file:
            file.write(buffer.getvalue())
        return Path(file.name)

    def read(path: Path) -> Any:
        return lib.load(path)

    return {
        "numpy": (pack_to_numpy, unpack_from_numpy),
        "disk": (write, read),
        "clone": (lambda tensor: tensor.detach().clone(), lambda tensor: tensor),
        "same": (lambda tensor: tensor, lambda tensor: tensor),
        "bfloat16": (lambda tensor: (tensor.dtype, tensor.bfloat16()), lambda pair: pair[1].to(pair[0])),
    }


# Values -------------------------------------------------------------------------------------------

SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (2, 3), (2, 3), (3, 1), (0,), (0, 3)]
DTYPES = ["float32", "float32", "float32", "bfloat16", "float16"]
PLAIN = [-1.25, -0.75, -0.5, 0.25, 0.375, 0.625, 0.875, 1.125, 1.5]
TIES = [0.5, 0.5, -0.5, 0.0, -0.0, 1.0]
SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.5, 0.5, -0.25, 1.0]


def make_values(numbers: Any, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Returns float32 values that each dtype holds."""
    table = {"plain": PLAIN, "ties": TIES, "special": SPECIAL}[kind]
    size = int(np.prod(shape))
    return np.array([numbers.choice(table) for _ in range(size)], np.float32).reshape(shape)
