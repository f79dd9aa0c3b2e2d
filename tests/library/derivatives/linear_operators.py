"""Linear operators as ops, of every kind of kernel, each with the same function in jax.numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

import oplib
from oplib.library import custom_op

MATRIX = np.array([[1.0, -2.0, 0.5, 3.0], [0.25, 1.5, -1.0, 2.0], [-0.75, 0.5, 1.25, -3.0]], np.float32)
COMPLEX = (MATRIX + 1j * MATRIX[::-1]).astype(np.complex64)
X = jnp.array([0.5, -1.0, 2.0, 0.25])
Z = jnp.array([0.5 + 1j, -1.0, 2.0 - 0.5j, 0.25j])


class Operator(NamedTuple):
    """A linear op, its reference, and arguments in which it is linear."""

    op: Callable[..., Any]
    reference: Callable[..., Any]
    point: tuple[Any, ...]


def make_operators() -> dict[str, Operator]:
    """Defines the ops, without names."""
    real = Operator(lambda x: x, lambda x: MATRIX @ x, (X,))
    weighted = Operator(_make_weighted(), lambda x: (MATRIX @ x) * jnp.array([2.0, 3.0, 5.0]), (X,))
    return {
        "host": real._replace(op=_make_host(MATRIX)),
        "host, complex": Operator(_make_host(COMPLEX), lambda x: COMPLEX @ x, (Z,)),
        "host, real to complex": Operator(_make_host(COMPLEX, np.float32), lambda x: COMPLEX @ x, (X,)),
        "host, complex to real": Operator(_make_real_part(), lambda x: (COMPLEX @ x).real, (Z,)),
        "host, antilinear": Operator(_make_antilinear(), lambda x: COMPLEX @ x.conj(), (Z,)),
        "host, formula that calls a host op": real._replace(op=_make_pair()),
        "host, formula that calls back": real._replace(op=_make_callback()),
        "host, with constants": weighted,
        "host, two arguments and results": Operator(
            _make_joint(), lambda x, w: (MATRIX @ x + w, 2 * w), (X, jnp.array([1.0, 2.0, -1.0]))
        ),
        "host, list": Operator(_make_list(), lambda x, y: MATRIX @ x - 2 * (MATRIX @ y), (X, 3 * X)),
        "host, optional": Operator(_make_optional(), lambda x: MATRIX @ x, (X,)),
        "pallas": real._replace(op=_make_pallas()),
        "array": real._replace(op=_make_array(compiled=True)),
        "array, plain": real._replace(op=_make_array(compiled=False)),
        "tensor": real._replace(op=_make_tensor()),
    }


def _like(rows: int, kind: Any = None) -> Callable[..., Any]:
    return lambda x, *_: jax.ShapeDtypeStruct((rows,), kind or x.dtype)


def _fit(matrix: np.ndarray, values: Any) -> np.ndarray:
    """Returns the matrix in the precision of the values."""
    wide = values.dtype.itemsize == (16 if values.dtype.kind == "c" else 8)
    kind = {(False, False): "f4", (False, True): "f8", (True, False): "c8", (True, True): "c16"}
    return matrix.astype(kind[matrix.dtype.kind == "c", wide])


def _make_host(matrix: np.ndarray, source: Any = None) -> Any:
    @custom_op
    def apply(x: np.ndarray) -> np.ndarray:
        return _fit(matrix, x) @ x

    apply.register_fake(lambda x: jax.ShapeDtypeStruct((3,), _fit(matrix, x).dtype))

    def adjoint(ctx: Any, g: np.ndarray) -> np.ndarray:
        gradient = _fit(matrix, g).conj().T @ g
        return gradient if source is None else gradient.real

    apply.register_autograd(adjoint, linear=True)
    return apply


def _make_real_part() -> Any:
    @custom_op
    def apply(x: np.ndarray) -> np.ndarray:
        return (_fit(COMPLEX, x) @ x).real

    apply.register_fake(lambda x: jax.ShapeDtypeStruct((3,), x.real.dtype))

    def adjoint(ctx: Any, g: np.ndarray) -> np.ndarray:
        return _fit(COMPLEX, g).conj().T @ g

    apply.register_autograd(adjoint, linear=True)
    return apply


def _make_antilinear() -> Any:
    """The map x -> M conj(x), which is linear over the real numbers."""

    @custom_op
    def apply(x: np.ndarray) -> np.ndarray:
        return _fit(COMPLEX, x) @ x.conj()

    apply.register_fake(_like(3))

    def adjoint(ctx: Any, g: np.ndarray) -> np.ndarray:
        return _fit(COMPLEX, g).T @ g.conj()

    apply.register_autograd(adjoint, linear=True)
    return apply


def _make_pair() -> Any:
    @custom_op
    def apply(x: np.ndarray) -> np.ndarray:
        return _fit(MATRIX, x) @ x

    @custom_op
    def back(y: np.ndarray) -> np.ndarray:
        return _fit(MATRIX, y).T @ y

    apply.register_fake(_like(3))
    back.register_fake(_like(4))
    apply.register_autograd(lambda ctx, g: back(g), linear=True)
    back.register_autograd(lambda ctx, g: apply(g), linear=True)
    return apply


def _make_callback() -> Any:
    @custom_op
    def apply(x: np.ndarray) -> np.ndarray:
        return _fit(MATRIX, x) @ x

    apply.register_fake(_like(3))

    def adjoint(ctx: Any, g: jax.Array) -> jax.Array:
        due = jax.ShapeDtypeStruct((4,), g.dtype)
        return jax.pure_callback(
            lambda g: _fit(MATRIX, g).T @ np.asarray(g), due, g, vmap_method="sequential"
        )

    apply.register_autograd(adjoint, linear=True)
    return apply


def _make_weighted() -> Any:
    """Linear in the first argument only; the weights and the permutation are constants."""

    @custom_op
    def apply(x: np.ndarray, weights: np.ndarray, order: np.ndarray, *, scale: float = 1.0) -> np.ndarray:
        return ((_fit(MATRIX, x) @ x) * weights * scale)[order]

    apply.register_fake(lambda x, weights, order, *, scale=1.0: jax.ShapeDtypeStruct((3,), x.dtype))

    def save(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs[1:])
        ctx.scale = keyword_only_inputs["scale"]

    def adjoint(ctx: Any, g: np.ndarray) -> Any:
        weights, order = ctx.saved_tensors
        spread = np.zeros_like(g)
        spread[order] = g
        return _fit(MATRIX, g).T @ (spread * weights * ctx.scale), None, None

    apply.register_autograd(adjoint, setup_context=save, linear=True)
    order = jnp.array([2, 0, 1])
    return lambda x: apply(x, jnp.array([1.0, 1.5, 2.5]), order, scale=2.0)[jnp.argsort(order)]


def _make_joint() -> Any:
    @custom_op
    def apply(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _fit(MATRIX, x) @ x + w, 2 * w

    apply.register_fake(lambda x, w: (w, w))

    def adjoint(ctx: Any, g: np.ndarray, h: np.ndarray) -> Any:
        return _fit(MATRIX, g).T @ g, g + 2 * h

    apply.register_autograd(adjoint, linear=True)
    return apply


def _make_list() -> Any:
    @custom_op
    def apply(parts: Sequence[np.ndarray]) -> np.ndarray:
        return _fit(MATRIX, parts[0]) @ (parts[0] - 2 * parts[1])

    apply.register_fake(lambda parts: jax.ShapeDtypeStruct((3,), parts[0].dtype))

    def adjoint(ctx: Any, g: np.ndarray) -> Any:
        back = _fit(MATRIX, g).T @ g
        return [back, -2 * back]

    apply.register_autograd(adjoint, linear=True)
    return lambda x, y: apply([x, y])


def _make_optional() -> Any:
    @custom_op
    def apply(x: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        return _fit(MATRIX, x) @ x + (0 if bias is None else bias)

    apply.register_fake(lambda x, bias=None: jax.ShapeDtypeStruct((3,), x.dtype))

    def adjoint(ctx: Any, g: np.ndarray) -> Any:
        return _fit(MATRIX, g).T @ g, g if ctx.has_bias else None

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.has_bias = inputs[1] is not None

    apply.register_autograd(adjoint, setup_context=save, linear=True)
    return apply


def _make_pallas() -> Any:
    def multiply(matrix: Any, values: Any) -> Any:
        def kernel(m: Any, v: Any, out: Any) -> None:
            out[...] = jnp.sum(m[...] * v[...], axis=1)

        due = jax.ShapeDtypeStruct(matrix.shape[:1], values.dtype)
        return pl.pallas_call(kernel, out_shape=due, interpret=True)(matrix.astype(values.dtype), values)

    @custom_op
    def apply(x: jax.Array) -> jax.Array:
        return multiply(jnp.asarray(MATRIX), x)

    def adjoint(ctx: Any, g: jax.Array) -> jax.Array:
        return multiply(jnp.asarray(MATRIX.T), g)

    apply.register_autograd(adjoint, linear=True)
    return apply


def _make_array(*, compiled: bool) -> Any:
    def apply(x: jax.Array) -> jax.Array:
        return jnp.stack([jnp.round(jnp.sum(row * x) * 2**20) / 2**20 for row in MATRIX])  # no derivative

    op = custom_op(compile=compiled)(apply)

    def adjoint(ctx: Any, g: jax.Array) -> jax.Array:
        return jnp.asarray(MATRIX.T) @ jnp.round(g * 2**20) / 2**20

    op.register_autograd(adjoint, linear=True)
    return op


def _make_tensor() -> Any:
    @custom_op
    def apply(x: oplib.Tensor) -> oplib.Tensor:
        return oplib.tensor(MATRIX, dtype=x.dtype) @ x

    def adjoint(ctx: Any, g: oplib.Tensor) -> oplib.Tensor:
        return oplib.tensor(MATRIX, dtype=g.dtype).T @ g

    apply.register_autograd(adjoint, linear=True)
    return apply
