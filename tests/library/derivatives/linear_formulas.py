"""Formulas that are linear in the gradient, and formulas that are not, for the checks of linearity."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

X = jnp.array([0.3, -0.7, 1.1])
PLACES = jnp.array([0, 5, 2])
MATRIX = jnp.array([[2.0, 0.3, 0.1], [0.3, 3.0, 0.2], [0.1, 0.2, 1.0]])
ZEROS = jnp.zeros(3)

doubled = jax.custom_jvp(lambda v: 2 * v)
doubled.defjvp(lambda p, t: (doubled(p[0]), doubled(t[0])))
# Custom derivatives that are not those of the value.
tripled_derivative = jax.custom_jvp(lambda v: 2 * v)
tripled_derivative.defjvp(lambda p, t: (2 * p[0], 3 * t[0]))
rounded = jax.custom_jvp(lambda v: jnp.round(v))
rounded.defjvp(lambda p, t: (jnp.round(p[0]), t[0]))
rounded_twice = jax.custom_jvp(lambda v: jnp.round(v))
rounded_twice.defjvp(lambda p, t: (rounded_twice(p[0]), rounded_twice(t[0])))
shifted = jax.custom_jvp(lambda v: v + 1)
shifted.defjvp(lambda p, t: (p[0] + 1, t[0] + 1))
identity_by_vjp = jax.custom_vjp(lambda v: v)
identity_by_vjp.defvjp(lambda v: (v, None), lambda _, g: (g,))


def loop(step: Any, start: Any, items: Any) -> Any:
    return jax.lax.scan(step, start, items)


def repeat(count: Any, step: Any, start: Any) -> Any:
    return jax.lax.fori_loop(0, count, step, start)


def until(condition: Any, step: Any, start: Any) -> Any:
    return jax.lax.while_loop(condition, step, start)


def write_through_a_reference(g: Any, term: Any) -> Any:
    reference = jax.new_ref(g)
    reference[...] = reference[...] + term
    return reference[...]


def multiply_by_a_reference(g: Any) -> Any:
    """Squares through a reference that begins with zeros, which are fixed."""
    reference = jax.new_ref(jnp.zeros(3))
    reference[...] = g
    return g * reference[...]


def on_the_host(function: Any, *values: Any) -> Any:
    shape = jax.ShapeDtypeStruct((3,), values[0].dtype)
    return jax.pure_callback(function, shape, *values, vmap_method="sequential")


LINEAR: dict[str, Any] = {
    "itself": lambda x, g: g,
    "zeros": lambda x, g: jnp.zeros(3),
    "a stack": lambda x, g: jnp.stack([g * x, g]).sum(0),
    "an unstacked array": lambda x, g: jnp.stack([v * 2 for v in jnp.unstack(jnp.outer(x, g))]).sum(1),
    "a tile": lambda x, g: jnp.tile(g, 2)[2:5] * x,
    "a repetition": lambda x, g: jnp.repeat(g, 2)[1:4],
    "a take": lambda x, g: jnp.take(g, jnp.array([2, 0, 0])),
    "a clipped take": lambda x, g: jnp.take(g, PLACES, mode="clip"),
    "a wrapped take": lambda x, g: jnp.take(g, PLACES, mode="wrap"),
    "a take filled with zeros": lambda x, g: jnp.take(g, PLACES, fill_value=0),
    "a take along an axis": lambda x, g: jnp.take_along_axis(g, jnp.argsort(x), axis=0),
    "a sum into zeros": lambda x, g: jnp.zeros(3).at[jnp.array([0, 0, 1])].add(g),
    "a difference into zeros": lambda x, g: jnp.zeros(3).at[PLACES].subtract(g),
    "values set into zeros": lambda x, g: jnp.zeros(3).at[jnp.array([2, 0, 1])].set(g * x),
    "values set twice": lambda x, g: jnp.zeros(3).at[jnp.array([2, 0, 0])].set(g * x),
    "one value set to zero": lambda x, g: g.at[1].set(0.0),
    "values multiplied at places": lambda x, g: g.at[jnp.array([0, 2])].multiply(3.0),
    "a sum into a constant of zeros": lambda x, g: ZEROS.at[PLACES].add(g),
    "a slice set": lambda x, g: jax.lax.dynamic_update_slice(jnp.zeros(3), g[:2], (1,)),
    "a dynamic slice": lambda x, g: jax.lax.dynamic_slice(jnp.pad(g, 2), (x.argmax(),), (3,)),
    "a roll": lambda x, g: jnp.roll(g, 1),
    "a flip": lambda x, g: jnp.flip(g) * x,
    "zero minus it": lambda x, g: 0 - g,
    "zeros minus it": lambda x, g: jnp.zeros(3) - g,
    "it minus zeros": lambda x, g: g - jnp.zeros(3),
    "it plus zeros": lambda x, g: jnp.zeros(3) + g,
    "a difference": lambda x, g: g - jnp.mean(g),
    "a product with zero": lambda x, g: g * 0,
    "a convolution": lambda x, g: jnp.convolve(g, x, mode="same"),
    "an einsum": lambda x, g: jnp.einsum("i,ij,j->i", x, MATRIX, g),
    "a triangle": lambda x, g: jnp.tril(jnp.outer(x, g)).sum(0),
    "a diagonal": lambda x, g: jnp.diag(jnp.diag(g) @ MATRIX),
    "a trace": lambda x, g: jnp.trace(jnp.outer(g, x)) * x,
    "a cumulative sum": lambda x, g: jnp.cumsum(g * x),
    "a reversed cumulative sum": lambda x, g: jax.lax.cumsum(g, reverse=True),
    "a sum over segments": lambda x, g: jax.ops.segment_sum(g, jnp.array([0, 2, 0]), 3),
    "a concatenation": lambda x, g: jnp.concatenate([g[1:], g[:1]]),
    "a concatenation with zeros": lambda x, g: jnp.concatenate([jnp.zeros(2), g[:1]]),
    "a real part": lambda x, g: (g * (1 + 2j)).real,
    "an inverse Fourier transform": lambda x, g: jnp.fft.ifft(jnp.fft.fft(g) * x).real,
    "a mean": lambda x, g: jnp.broadcast_to(g.mean(), 3),
    "a gradient of a softmax": lambda x, g: jax.vjp(jax.nn.softmax, x)[1](g)[0],
    "a gradient of a layer norm": lambda x, g: jax.vjp(lambda v: (v - v.mean()) / v.std(), x)[1](g)[0],
    "a gradient of logsumexp": lambda x, g: jax.vjp(jax.nn.logsumexp, x)[1](g.sum())[0],
    "a gradient of a sort": lambda x, g: jax.vjp(jnp.sort, x)[1](g)[0],
    "a gradient of a maximum": lambda x, g: jax.vjp(lambda v: v.max() * v, x)[1](g)[0],
    "a gradient of a cumulative product": lambda x, g: jax.vjp(jnp.cumprod, x)[1](g)[0],
    "a derivative of a solution": lambda x, g: jax.jvp(lambda v: jnp.linalg.solve(MATRIX, v), (x,), (g,))[1],
    "a symmetric solution": lambda x, g: jax.scipy.linalg.solve(MATRIX, g, assume_a="pos"),
    "a Cholesky solution": lambda x, g: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(MATRIX), g),
    "conjugate gradients": lambda x, g: jax.scipy.sparse.linalg.cg(lambda v: MATRIX @ v, g)[0],
    "conjugate gradients of a tree": lambda x, g: sum(
        jax.scipy.sparse.linalg.cg(lambda v: (MATRIX @ v[0], 2 * v[1]), (g, 3 * g))[0]
    ),
    "a linear custom_jvp": lambda x, g: doubled(g) * x,
    "a linear custom_jvp in jit": lambda x, g: jax.jit(doubled)(g * x),
    "a linear custom_jvp in a loop": lambda x, g: loop(lambda c, v: (c + doubled(v), c), 0.0, g)[1],
    "a linear custom_jvp in a branch": lambda x, g: jax.lax.cond(x[0] > 0, doubled, lambda v: v, g),
    "a linear custom_jvp in a checkpoint": lambda x, g: jax.checkpoint(lambda v: doubled(v) * x)(g),
    "a linear custom_jvp of another derivative": lambda x, g: tripled_derivative(g),
    "custom derivatives of the residual": lambda x, g: jax.nn.relu(x) * rounded(x) * identity_by_vjp(x) * g,
    "a loop with a counter": lambda x, g: repeat(4, lambda i, c: c * x + i * c, g),
    "a loop with residuals": lambda x, g: loop(lambda c, v: (c * v[1] + v[0], c), 0.0, (g, x))[1],
    "a loop whose carries change places": lambda x, g: loop(
        lambda c, v: ((c[1], c[0] + v), c[1]), (jnp.zeros(()), jnp.zeros(())), g
    )[1],
    "a loop over a product of residuals": lambda x, g: loop(
        lambda c, v: ((c[0] * v[1], c[1] + c[0] * v[0]), c[1]), (1.0, 0.0), (g, x)
    )[1],
    "a nested loop": lambda x, g: loop(lambda c, v: (repeat(2, lambda i, d: d + v * x.sum(), c), c), 0.0, g)[
        1
    ],
    "a reversed loop": lambda x, g: jax.lax.scan(lambda c, v: (c + v, c), 0.0, g, reverse=True)[1],
    "an associative scan of residuals": lambda x, g: jax.lax.associative_scan(jnp.multiply, x) * g,
    "an associative scan": lambda x, g: jax.lax.associative_scan(jnp.add, g),
    "a switch": lambda x, g: jax.lax.switch(x.argmax(), [lambda v: v, lambda v: 2 * v, lambda v: v * x], g),
    "a branch of zeros": lambda x, g: jax.lax.cond(x[0] > 0, lambda v: v, lambda v: jnp.zeros(3), g),
    "a mapped branch": lambda x, g: jax.vmap(
        lambda v, w: jax.lax.cond(v > 0, lambda a: a * v, lambda a: 3 * a, w)
    )(x, g),
    "a mapped switch": lambda x, g: jax.vmap(
        lambda place, w: jax.lax.switch(place, [lambda a: a, lambda a: -a, lambda a: 2 * a], w)
    )(PLACES, g),
    "a mapped function": lambda x, g: jax.vmap(lambda v, w: v * w)(g, x),
    "a mapped take": lambda x, g: jax.vmap(lambda place: g[place])(jnp.array([2, 1, 0])),
    "select": lambda x, g: jax.lax.select(x > 0, g, -g),
    "piecewise": lambda x, g: jnp.piecewise(x, [x > 0], [0.0, 1.0]) * g,
    "a barrier": lambda x, g: jax.lax.optimization_barrier((g, x))[0],
    "a name": lambda x, g: jax.ad_checkpoint.checkpoint_name(g, "grad") * x,
    "a cross product": lambda x, g: jnp.cross(x, g),
    "a window": lambda x, g: jax.lax.reduce_window(g, 0.0, jax.lax.add, (2,), (1,), "SAME"),
    "a resized image": lambda x, g: jax.image.resize(g, (6,), "linear")[:3],
    "a product of matrices": lambda x, g: jnp.linalg.multi_dot([MATRIX, MATRIX, g]),
    "a Kronecker product": lambda x, g: jnp.kron(g, x)[:3],
    "a meshgrid": lambda x, g: jnp.meshgrid(g, x)[0].sum(0),
    "an interpolation": lambda x, g: jnp.interp(x, jnp.array([-1.0, 0.0, 2.0]), g),
    "a difference of neighbours": lambda x, g: jnp.pad(jnp.diff(g), (0, 1)),
    "a reference to the residual": lambda x, g: write_through_a_reference(x, 1.0) * g,
    "a printed gradient": lambda x, g: [jax.debug.print("{}", g), g * x][1],
    "a callback of the residual": lambda x, g: on_the_host(np.sin, x) * g,
}
# Linear, but JAX has no transpose.
NOT_TRANSPOSABLE: dict[str, Any] = {
    "a loop of unknown length": lambda x, g: repeat(x.argmax(), lambda i, c: c * x, g),
}
NOT_LINEAR: dict[str, Any] = {
    "rounding": lambda x, g: jnp.round(g),
    "a sign": lambda x, g: jnp.sign(g),
    "a floor": lambda x, g: jnp.floor(g) * x,
    "a gradient that is stopped": lambda x, g: jax.lax.stop_gradient(g),
    "a part of it that is stopped": lambda x, g: g + jax.lax.stop_gradient(g),
    "a scale that is stopped": lambda x, g: g * jax.lax.stop_gradient(g),
    "integers": lambda x, g: g.astype(int).astype(float) + 0 * g,
    "a comparison": lambda x, g: (g > 0).astype(float),
    "a take filled with ones": lambda x, g: jnp.take(g, PLACES, fill_value=1),
    "a take of what was filled": lambda x, g: jnp.nan_to_num(jnp.take(g, PLACES), nan=1.0),
    "a padding of NaN": lambda x, g: jnp.pad(g, 1, constant_values=jnp.nan)[:3],
    "a mask of NaN": lambda x, g: jnp.where(x > 0, g, jnp.nan),
    "a padding of one": lambda x, g: jnp.pad(g, 1, constant_values=1)[1:4],
    "values set into the residual": lambda x, g: x.at[PLACES].set(g),
    "one value set to one": lambda x, g: g.at[1].set(1.0),
    "a custom_jvp that hides rounding": lambda x, g: rounded(g),
    "a custom_jvp that rounds tangents too": lambda x, g: rounded_twice(g),
    "a custom_jvp that shifts tangents too": lambda x, g: shifted(g),
    "hidden rounding in jit": lambda x, g: jax.jit(rounded)(g),
    "hidden rounding in a loop": lambda x, g: loop(lambda c, v: (c + rounded(v), c), 0.0, g)[1],
    "hidden rounding in a branch": lambda x, g: jax.lax.cond(x[0] > 0, rounded, lambda v: v, g),
    "hidden rounding in a while loop": lambda x, g: repeat(x.argmax(), lambda i, c: rounded_twice(c), g),
    "a custom_vjp": lambda x, g: identity_by_vjp(g),
    "a clip": lambda x, g: jnp.clip(g, -1, 1),
    "a rectifier": lambda x, g: jax.nn.relu(g),
    "a norm": lambda x, g: g / jnp.linalg.norm(g),
    "a clipped norm": lambda x, g: g * jnp.minimum(1.0, 1 / jnp.linalg.norm(g)),
    "a maximum": lambda x, g: jnp.maximum(g, 0),
    "the sorted": lambda x, g: jnp.sort(g),
    "the places of the largest": lambda x, g: x[jnp.argsort(g)],
    "a softmax": lambda x, g: jax.nn.softmax(g),
    "an exponent": lambda x, g: jnp.expm1(g),
    "a product of two parts": lambda x, g: g[0] * g,
    "a term that cancels at once": lambda x, g: (g + 1) - jnp.round(g) + jnp.round(g) - x,
    "a loop that stops by itself": lambda x, g: until(lambda c: c.sum() < 3, lambda c: c * 2, g + 0 * x),
    "a loop that stops by a copy": lambda x, g: until(
        lambda c: c[0].sum() < 3, lambda c: (c[0] + 1, c[1] * 2), (g, g)
    )[1],
    "a loop that counts up to it": lambda x, g: repeat(g.sum().astype(int), lambda i, c: c + 1, x),
    "a loop that starts at the residual": lambda x, g: loop(lambda c, v: (c + v, c), x.sum(), g)[1],
    "a loop that adds its counter": lambda x, g: repeat(3, lambda i, c: c + i, g),
    "a loop that grows another carry": lambda x, g: loop(
        lambda c, v: ((c[0] + v + c[1], c[1] + 1.0), c[0]), (0.0, 0.0), g
    )[1],
    "a nested loop with a term": lambda x, g: loop(
        lambda c, v: (repeat(2, lambda i, d: d + v + 1, c), c), 0.0, g
    )[1],
    "a loop that multiplies items": lambda x, g: jnp.cumprod(g),
    "a loop of products": lambda x, g: loop(lambda c, v: (c * v, c), 1.0, g)[1],
    "a mapped condition": lambda x, g: jax.vmap(lambda v: jax.lax.cond(v > 0, lambda: v, lambda: 0.0))(g),
    "a switch by itself": lambda x, g: jax.lax.switch(g.argmax(), [lambda v: v, lambda v: 2 * v], g),
    "a reference that is written": lambda x, g: write_through_a_reference(g, 1.0),
    "a reference that is written by itself": lambda x, g: write_through_a_reference(g, g * g),
    "a product with a reference that holds it": lambda x, g: multiply_by_a_reference(g),
    "a callback": lambda x, g: on_the_host(np.round, g),
    "a division by itself": lambda x, g: x * g / g,
    "a residual plus zero of it": lambda x, g: g + x * 0,
    "a solution with its matrix": lambda x, g: jnp.linalg.solve(jnp.diag(g), x),
    "conjugate gradients of an affine operator": lambda x, g: jax.lax.custom_linear_solve(
        lambda v: 2 * v + 1, g, lambda _, b: b / 2 - 0.5, symmetric=True
    ),
    "an absolute value of a complex number": lambda x, g: jnp.abs(g * 1j),
    "a remainder": lambda x, g: g % 1,
    "a random mask by its bits": lambda x, g: jnp.where(g.view(jnp.int32) % 2 == 0, g, 0),
}
