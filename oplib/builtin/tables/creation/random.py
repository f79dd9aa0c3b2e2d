"""Random numbers: each call draws a key from its Generator, and the kernel is a function of that key.

The kernels do not depend on the device, so equal keys give equal numbers everywhere. As in torch, the items
of a distribution have no gradient with respect to its parameters: every gradient is zero.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from oplib.autograd.array_functions.array_types import match_type
from oplib.builtin.rows.row import Row, constant
from oplib.builtin.shared_kernels.dtype_classes import classify
from oplib.builtin.shared_kernels.promotion import broadcast, broadcast_to, strong
from oplib.errors import ArgumentError, UnsupportedDtypeError
from oplib.protocols import AnyFunction
from oplib.tensor import default_int_dtype
from oplib.tensor.dtypes import names as dtypes
from oplib.tensor.dtypes.rules import COMPLEX, INTEGRAL


def _widen(dtype: Any) -> Any:
    """Returns the dtype of the draws: half precision is too coarse, and integers are rounded later."""
    return dtype if dtype in (dtypes.float32, dtypes.float64) else jnp.dtype(dtypes.float32)


def _draw_open(generator: Any, like: Any) -> Any:
    """Draws uniform numbers without 0, so that their logarithm is finite."""
    wide = _widen(like.dtype)
    return jax.random.uniform(generator.next_key(), like.shape, wide, minval=jnp.finfo(wide).tiny)


# One number for each item -----------------------------------------------------------------------------------


def _flip(self: Any, p: Any, *, generator: Any) -> Any:
    """Returns ones where a uniform number is below p."""
    wide = _widen(p.dtype)
    if broadcast([self, p])[0].shape != self.shape:
        raise ArgumentError("probabilities must broadcast to the shape that is filled", "Reshape them.")
    chance = lax.stop_gradient(broadcast_to(lax.convert_element_type(p, wide), self.shape))
    drawn = jax.random.uniform(generator.next_key(), self.shape, wide)
    return strong(match_type(drawn, jax.typeof(chance)) < chance, self)


def _bernoulli(self: Any, *, generator: Any) -> Any:
    return match_type(_flip(self, self, generator=generator), jax.typeof(self))


def _uniform(self: Any, low: Any, high: Any, *, generator: Any) -> Any:
    if self.dtype in COMPLEX:
        part = self.real
        drawn = [jax.random.uniform(key, part.shape, part.dtype) for key in _split(generator)]
        return lax.complex(*(_stretch(numbers, low, high) for numbers in drawn))
    return _stretch(jax.random.uniform(generator.next_key(), self.shape, self.dtype), low, high)


def _split(generator: Any) -> tuple[Any, Any]:
    return generator.next_key(), generator.next_key()


def _stretch(drawn: Any, low: Any, high: Any) -> Any:
    """Maps the unit interval to another one; rounding may reach its end, which is excluded."""
    low, high = (broadcast_to(strong(lax.stop_gradient(end), drawn), drawn.shape) for end in (low, high))
    moved = drawn * (high - low) + low
    return jnp.where(moved < high, moved, low)


def _normal(self: Any, mean: Any, std: Any, *, generator: Any) -> Any:
    drawn = jax.random.normal(generator.next_key(), self.shape, self.dtype)
    mean, std = (broadcast_to(strong(lax.stop_gradient(array), self), self.shape) for array in (mean, std))
    return drawn * std + mean


def _normal_around(mean: Any, std: Any, *, generator: Any) -> Any:
    """Adds noise to tensors that broadcast; the dtype is that of the mean, or of the only tensor."""
    shape = broadcast([mean, std])[0].shape
    dtype = std.dtype if jax.typeof(mean).weak_type else mean.dtype
    if classify(dtype) not in "hfc":
        raise UnsupportedDtypeError(f"not implemented for '{dtype}'", "Convert them: tensor.to(dtype).")
    return _normal(jax.ShapeDtypeStruct(shape, dtype), mean, std, generator=generator)


def _exponential(self: Any, lambd: Any, *, generator: Any) -> Any:
    return strong(-jnp.log(_draw_open(generator, self)) / _scalar(lambd, self), self)


def _log_normal(self: Any, mean: Any, std: Any, *, generator: Any) -> Any:
    drawn = jax.random.normal(generator.next_key(), self.shape, _widen(self.dtype))
    return strong(jnp.exp(drawn * _scalar(std, self) + _scalar(mean, self)), self)


def _geometric(self: Any, p: Any, *, generator: Any) -> Any:
    """Returns the number of trials up to the first success."""
    throws = jnp.ceil(jnp.log(_draw_open(generator, self)) / jnp.log1p(-_scalar(p, self)))
    throws = jnp.maximum(throws, jnp.ones_like(throws))
    if self.dtype in INTEGRAL:
        most = np.asarray(np.iinfo(self.dtype).max, throws.dtype)
        throws = jnp.minimum(throws, jnp.full_like(throws, np.nextafter(most, 0, dtype=most.dtype)))
    return strong(throws, self)


def _cauchy(self: Any, median: Any, sigma: Any, *, generator: Any) -> Any:
    drawn = jax.random.cauchy(generator.next_key(), self.shape, _widen(self.dtype))
    return strong(drawn * _scalar(sigma, self) + _scalar(median, self), self)


def _scalar(number: Any, like: Any) -> Any:
    """Returns a parameter in the dtype of the computation, broadcast to all items."""
    wide = _widen(like.dtype)
    return broadcast_to(lax.convert_element_type(lax.stop_gradient(number), wide), like.shape)


def _poisson(self: Any, *, generator: Any) -> Any:
    drawn = jax.random.poisson(generator.next_key(), lax.convert_element_type(self, _widen(self.dtype)))
    return match_type(strong(drawn, self), jax.typeof(self))


# Places -----------------------------------------------------------------------------------------------------


def _multinomial(self: Any, num_samples: int, replacement: bool, *, generator: Any) -> Any:
    _check_multinomial(self, num_samples, replacement)
    weights = lax.convert_element_type(self, _widen(self.dtype))
    draw = _draw_again if replacement else _draw_once
    return lax.convert_element_type(draw(weights, num_samples, generator.next_key()), default_int_dtype())


def _draw_once(weights: Any, count: int, key: Any) -> Any:
    """Draws without replacement: the positions with the smallest exponential times of these rates."""
    times = jax.random.exponential(key, weights.shape, weights.dtype)
    return lax.top_k(weights / (times + jnp.full_like(times, jnp.finfo(times.dtype).tiny)), count)[1]


def _draw_again(weights: Any, count: int, key: Any) -> Any:
    """Draws with replacement: finds uniform numbers in the cumulative sum."""
    sums = jnp.cumsum(weights, axis=-1)
    total = sums[..., -1:]
    thrown = jax.random.uniform(key, (*weights.shape[:-1], count), weights.dtype) * total
    thrown = jnp.minimum(thrown, jnp.nextafter(total, jnp.zeros_like(total)))  # rounding may reach the end
    search = jnp.vectorize(partial(jnp.searchsorted, side="right"), signature="(n),(m)->(m)")
    return search(sums, thrown)


def _check_multinomial(weights: Any, count: int, replacement: bool) -> None:
    if weights.ndim not in (1, 2):
        raise ArgumentError("prob_dist must be 1 or 2 dim", "Reshape it to one row for each distribution.")
    if count <= 0:
        raise ArgumentError("cannot sample n_sample <= 0 samples", "Ask for one at least.")
    if not replacement and count > weights.shape[-1]:
        raise ArgumentError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement",
            "Ask for fewer, or say replacement=True.",
        )


def _fill(schema: str, kernel: AnyFunction, doc: str, classes: str) -> Row:
    """Makes a row for an op that fills a tensor; only the tensor's dtype is checked.

    Its numbers are operands. The methods that fill tensors call it; only an overload of a function is public.
    """
    head, _, arguments = schema.partition("(")
    base, is_overload, _ = head.partition(".")
    name = base.removesuffix("_functional")

    def checked(self: Any, *numbers: Any, generator: Any) -> Any:
        if classify(self.dtype) not in classes:
            raise UnsupportedDtypeError(f"not implemented for '{self.dtype}'", "Fill a floating tensor.")
        return match_type(kernel(self, *numbers, generator=generator), jax.typeof(self))

    return Row(
        f"{schema}, *, Generator? generator=None) -> Tensor",
        checked,
        doc if is_overload else f"{doc} in the shape of a tensor",
        operand=tuple(re.findall(r"float (\w+)", arguments)),
        dtypes=classes,
        source=f"torch.Tensor.{name}_",
        is_internal=not is_overload,
    )


ROWS = (
    Row(
        "bernoulli(Tensor self, *, Generator? generator=None) -> Tensor",
        _bernoulli,
        "ones with the probability given by each item, and zeros",
        dtypes="hf",
        out=True,
    ),
    _fill("bernoulli.p(Tensor self, float p", _flip, "ones with a given probability, and zeros", "bihf"),
    _fill(
        "bernoulli.Tensor(Tensor self, Tensor p", _flip, "ones with given probabilities, and zeros", "bihf"
    ),
    Row(
        "poisson(Tensor self, *, Generator? generator=None) -> Tensor",
        _poisson,
        "numbers of events, drawn with the rate given by each item",
        derivative=constant("a number of events does not depend smoothly on the rate"),
        dtypes="hf",
    ),
    Row(
        "multinomial(Tensor self, int num_samples, bool replacement=False, *, Generator? generator=None) -> "
        "Tensor",
        _multinomial,
        "positions, drawn with the weights of each row",
        dtypes="hf",
        exact_out=True,
    ),
    Row(
        "normal.Tensor_float(Tensor mean, float std=1., *, Generator? generator=None) -> Tensor",
        _normal_around,
        "normally distributed numbers with given means",
        operand=("std",),
        dtypes="hfc",
        out=True,
    ),
    Row(
        "normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
        _normal_around,
        "normally distributed numbers with given standard deviations",
        operand=("mean",),
        dtypes="hf",
    ),
    Row(
        "normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor",
        _normal_around,
        "normally distributed numbers with given means and standard deviations",
        dtypes="hfc",
    ),
    _fill(
        "normal_functional(Tensor self, float mean=0., float std=1.",
        _normal,
        "normally distributed numbers",
        "hfc",
    ),
    _fill(
        "uniform(Tensor self, float from=0., float to=1.", _uniform, "uniformly distributed numbers", "hfc"
    ),
    _fill("exponential(Tensor self, float lambd=1.", _exponential, "exponentially distributed numbers", "hf"),
    _fill(
        "log_normal(Tensor self, float mean=1., float std=2.",
        _log_normal,
        "log-normally distributed numbers",
        "hf",
    ),
    _fill("geometric(Tensor self, float p", _geometric, "numbers of trials up to the first success", "ihf"),
    _fill("cauchy(Tensor self, float median=0., float sigma=1.", _cauchy, "Cauchy distributed numbers", "hf"),
)
