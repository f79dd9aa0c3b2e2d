"""One sample of one op as functions: of its arrays, of Tensors, and of one vector of real numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.builtin.public_functions.families import ROWS
from oplib.builtin.rows.row import Row
from oplib.library import OpOverload
from oplib.library.arguments.binding import Binder
from oplib.library.op_objects.overload import list_overloads
from oplib.tensor import Tensor
from tests.builtin.samples.drawing import Sample, to_complex
from tests.builtin.samples.samples import find_samples

OPS: dict[str, OpOverload] = {  # what draws random numbers gives others each time, and has tests of its own
    op.name().partition("::")[2]: op
    for op in list_overloads()
    if op.namespace == "oplib" and "Generator" not in str(op._schema)
}
ROW_OF: dict[str, Row] = {row.name: row for row in ROWS}
FIRST_ROWS: dict[str, Row] = {row.op: row for row in reversed(ROWS)}

OF_HERMITIAN = frozenset({"linalg_cholesky", "linalg_cholesky_ex", "linalg_eigh", "linalg_eigvalsh"})
WITH_PHASES = {"linalg_eig": (1,), "linalg_eigh": (1,), "linalg_svd": (0, 2)}


@cache
def find_call(name: str, number: int, *, is_complex: bool = False) -> Call:
    """Returns the call of a sample, the same object for every check, which caches its results.

    Args:
        name: the name of the overload, without the namespace.
        number: the number of the sample.
        is_complex: whether floating tensors are replaced by complex ones.
    """
    sample = find_samples(OPS[name])[number]
    return Call(name, to_complex(sample) if is_complex else sample)


class Call:
    """A sample of an op.

    Attributes:
        arrays: the flat arrays.
        places: the positions of floating or complex arrays.
    """

    def __init__(self, name: str, sample: Sample) -> None:
        leaves, self._tree = jax.tree_util.tree_flatten((sample.args, sample.kwargs))
        self._leaves = leaves
        self._where = [place for place, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]
        self.name, self.op, self.sample = name, OPS[name], sample
        self.arrays: list[np.ndarray] = [leaves[place] for place in self._where]
        self.places = [place for place, array in enumerate(self.arrays) if array.dtype.kind in "fc"]

    @property
    def row(self) -> Row:
        return ROW_OF[self.name]

    def arguments(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments of a call, with these arrays."""
        leaves = list(self._leaves)
        for place, array in zip(self._where, arrays, strict=True):
            leaves[place] = array
        return jax.tree_util.tree_unflatten(self._tree, leaves)

    def run(self, *arrays: Any) -> tuple[Any, ...]:
        """Calls the op."""
        return self.run_function(self.op, *arrays)

    def run_function(self, function: Callable[..., Any], *arrays: Any) -> tuple[Any, ...]:
        args, kwargs = self.prepare(arrays)
        return self.without_phases(as_tuple(function(*args, **kwargs)))

    def prepare(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments; a matrix of which the op reads one half is made hermitian."""
        args, kwargs = self.arguments(arrays)
        if self.row.op in OF_HERMITIAN:
            turned = args[0].conj().mT if jnp.issubdtype(args[0].dtype, jnp.complexfloating) else args[0].mT
            args = (0.5 * (args[0] + turned), *args[1:])
        return args, kwargs

    def without_phases(self, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the results; of vectors with arbitrary phases only the magnitudes."""
        places = WITH_PHASES.get(self.row.op, ())
        return tuple(
            abs(result) if place in places and result.dtype.kind == "c" else result
            for place, result in enumerate(results)
        )

    def run_kernel(self, *arrays: Any) -> tuple[Any, ...]:
        """Calls the kernel as a plain JAX function, without oplib."""
        args, kwargs = self.prepare(arrays)
        record = self.op.record
        values = Binder(record.schema).bind(args, kwargs)
        values = [
            jnp.asarray(value) if argument.name in record.operand else value
            for argument, value in zip(record.schema.arguments, values, strict=True)
        ]
        count = record.schema.num_positional
        names = [argument.name for argument in record.schema.arguments[count:]]
        named = dict(zip(names, values[count:], strict=True))
        return self.without_phases(as_tuple(record.kernels["default"](*values[:count], **named)))

    @property
    def floats(self) -> list[np.ndarray]:
        """Returns the arrays that can have a gradient."""
        return [self.arrays[place] for place in self.places]

    def with_floats(self, floats: Sequence[Any]) -> list[Any]:
        """Returns all arrays, with these in place of the floating ones."""
        arrays: list[Any] = [jnp.asarray(array) for array in self.arrays]
        for place, value in zip(self.places, floats, strict=True):
            arrays[place] = value
        return arrays

    def make_tensors(self, *, requires_grad: bool = False) -> list[Tensor]:
        return [
            Tensor.from_array(jnp.asarray(array), requires_grad=requires_grad and place in self.places)
            for place, array in enumerate(self.arrays)
        ]

    # -- as a function of one vector: a complex number counts as two real ones, as in torch's gradients

    @cached_property
    def point(self) -> np.ndarray:
        """Returns all floating numbers of the sample."""
        return to_vector(self.floats)

    @cached_property
    def direction(self) -> np.ndarray:
        """Returns a direction in which to move the point, the same for every check."""
        return np.random.default_rng(5).uniform(0.5, 1.5, self.point.shape)

    def split(self, vector: Any) -> list[Any]:
        """Returns the floating arrays at another point."""
        return from_vector(vector, self.floats)

    def run_kernel_at(self, vector: Any) -> Any:
        """Returns all floating numbers of the results as a vector."""
        results = self.run_kernel(*self.with_floats(self.split(vector)))
        return to_vector([value for value in results if jnp.issubdtype(value.dtype, jnp.inexact)])


def as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def to_vector(arrays: Sequence[Any]) -> Any:
    """Returns all numbers of some arrays in one vector of doubles; imaginary parts follow real parts."""
    xp: Any = jnp if any(isinstance(array, jax.Array) for array in arrays) else np
    parts: list[Any] = []
    for array in arrays:
        is_complex = xp.issubdtype(array.dtype, xp.complexfloating)
        own = (xp.real(array), xp.imag(array)) if is_complex else (array,)
        parts += [xp.ravel(part).astype(np.float64) for part in own]
    return xp.concatenate([xp.zeros(0), *parts])


def from_vector(vector: Any, like: Sequence[Any]) -> list[Any]:
    """Returns arrays of these shapes and dtypes from their numbers."""
    arrays: list[Any] = []
    start = 0
    for array in like:
        parts: list[Any] = []
        for _ in range(1 + (np.dtype(array.dtype).kind == "c")):
            parts.append(vector[start : start + array.size].reshape(array.shape))
            start += array.size
        if len(parts) == 2:
            is_traced = isinstance(vector, jax.Array)
            parts = [jax.lax.complex(*parts) if is_traced else np.asarray(parts[0] + 1j * parts[1])]
        arrays.append(parts[0].astype(array.dtype))
    return arrays


def draw_weights(count: int) -> np.ndarray:
    """Returns the weights that combine the numbers of the results to one number."""
    return np.random.default_rng(3).uniform(0.5, 1.5, count)


def draw_weights_like(arrays: Sequence[Any]) -> list[np.ndarray]:
    """Returns the weights in the shapes of the results."""
    count = sum(array.size * (1 + (np.dtype(array.dtype).kind == "c")) for array in arrays)
    return from_vector(draw_weights(count), arrays)


def assert_close(found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=tolerance, atol=tolerance)


def assert_near(found: Any, expected: Any, tolerance: float) -> None:
    """Compares numbers with finite differences, whose error is relative to the largest number."""
    expected = np.asarray(expected)
    scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0.0, atol=tolerance * scale)
