"""The arguments of a check; each test gets its own copy, and the caller's stay unchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.masks import pick_true, spread
from oplib.autograd.gradcheck.coordinates import draw_arrays
from oplib.library.arguments.binding import Binder
from oplib.library.arguments.keys import draw_keys, to_key
from oplib.library.arguments.layout import make_layout
from oplib.library.arguments.plain_conversions import is_array
from oplib.library.arguments.recording import unbox
from oplib.library.arguments.trees import is_tree_leaf
from oplib.library.op_objects.overload import OpOverload
from oplib.tensor import Tensor, needs_grad
from oplib.tensor.random.generator import is_key


class Sample:
    """One op with arguments.

    Attributes:
        overload: the op.
        arrays: the arrays among the arguments, in the order of the schema.
        differentiable: for each of them, whether to differentiate by it.
    """

    def __init__(self, overload: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        record = overload.record
        values = Binder(record.schema, operand=record.operand).bind(args, kwargs, op=record.name)
        self.overload = overload
        self.layout, flat = make_layout(record.schema, values, record.operand, op=record.name)
        self._flat = flat = draw_keys(flat)
        self.is_number = [not is_array(value) or is_key(value) for value in flat]
        self.arrays = [jnp.asarray(unbox(value) if is_array(value) else value) for value in flat]
        self.differentiable = self._find_differentiable()

    def _find_differentiable(self) -> list[bool]:
        """Returns, per array, whether its Tensor requires grad; for arrays, whether the op differentiates."""
        record = self.overload.record
        if record.derivative.constant is not None:
            return [False] * len(self._flat)
        if any(isinstance(value, Tensor) for value in self._flat):
            return list(map(needs_grad, self._flat))
        derivative = record.derivative
        is_known = derivative.backward is not None or record.is_transparent or record.jvp is not None
        pairs = zip(self.is_number, self.arrays, strict=True)
        return [
            is_known and not number and bool(jnp.issubdtype(array.dtype, jnp.inexact))
            for number, array in pairs
        ]

    @property
    def needs_grad(self) -> bool:
        """Tells whether there is something to differentiate by: Tensors that require grad, or only arrays."""
        return any(self.differentiable)

    @property
    def has_backward(self) -> bool:
        """Tells whether the op writes nothing, and its backward derivative is known."""
        record = self.overload.record
        is_known = record.derivative.backward is not None or record.derivative.derive
        return self.is_functional and (is_known or record.kind == "composite")

    @property
    def is_functional(self) -> bool:
        """Tells whether the op writes nothing."""
        return not self.overload.record.schema.is_mutable

    def explain_no_derivative(self) -> str | None:
        """Tells why there is no derivative to check; None if there is one."""
        record = self.overload.record
        derivative = record.derivative
        if derivative.constant is not None:
            return f"the derivative is zero, because {derivative.constant}"
        if derivative.missing is not None:
            return f"the derivative is missing, because {derivative.missing}"
        if not self.is_functional:
            return "the op writes an argument"
        if derivative.backward is None and record.jvp is None and not record.is_transparent:
            return "no derivative is registered"
        return None if self.needs_grad else "no argument requires grad"

    def explain_no_formula(self) -> str | None:
        """Tells why there is no backward that could be compared with differences; None if there is one."""
        derivative = self.overload.record.derivative
        if derivative.nonlinear:
            return "the formula is declared nonlinear, so it is not the kernel's derivative"
        if derivative.surrogate:
            return "the formula is declared a surrogate, so it is not compared with finite differences"
        if not self.has_backward:
            return "the backward is derived from the jvp rule, which test_forward_mode checks"
        return None

    def name(self, index: int) -> str:
        """Returns the name of the argument that contains an array."""
        return self.layout.find_argument(index)

    def make_tensors(self, *, requires_grad: bool = True) -> list[Any]:
        """Returns new leaves for the arrays; a number stays a number."""
        return [
            value
            if number
            else Tensor.from_array(jnp.array(array), requires_grad=requires_grad and differentiable)
            for value, number, array, differentiable in zip(
                self._flat, self.is_number, self.arrays, self.differentiable, strict=True
            )
        ]

    def call(self, leaves: Sequence[Any]) -> list[Any]:
        """Calls the op on Tensors and returns the written values and the results, flat."""
        values = list(map(to_key, self.layout.rebuild(leaves)))
        args, kwargs = self.layout.split(values)
        result = self.overload(*args, **kwargs)
        schema = self.overload.record.schema
        results = [result] if len(schema.returns) == 1 else list(result or ())
        written = [values[index] for index in self.layout.written_indices]
        returned = zip(results, schema.returned_arguments, strict=True)
        return flatten([*written, *(result for result, index in returned if index is None)])

    def as_function(self, arrays: Sequence[Any]) -> tuple[Callable[..., list[Any]], list[Any]]:
        """Returns the op as a function of its differentiable arguments, and the point of the check."""

        def call(*varied: Any) -> list[Any]:
            return [
                array
                for array in only_arrays(self.call_arrays(self.put(varied, arrays)))
                if is_inexact(array)
            ]

        return call, self.pick(arrays)

    def pick(self, values: Sequence[Any]) -> list[Any]:
        """Returns the values, of one per array, that belong to differentiable arguments."""
        return pick_true(values, self.differentiable)

    def put(self, varied: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """Returns the values with others at the positions of differentiable arguments."""
        return spread(varied, self.differentiable, values)

    def apply(self, function: Callable[..., Any], leaves: Sequence[Any], *, is_kernel: bool = False) -> Any:
        """Calls a function with the arguments of the op, in which these leaves replace the arrays.

        Args:
            function: the function to call; it gets a key in place of a Generator.
            leaves: one leaf per array.
            is_kernel: the function is a kernel, which gets the Generator itself.
        """
        values = self.layout.rebuild(leaves)
        args, kwargs = self.layout.split(values if is_kernel else list(map(to_key, values)))
        return function(*args, **kwargs)

    def call_arrays(self, arrays: Sequence[Any]) -> list[Any]:
        """Calls the op on arrays or tracers; returns new values of written arguments, and results, flat."""
        result = self.apply(self.overload.functional, arrays)
        return flatten(result if isinstance(result, tuple) else [result])


def flatten(values: Any) -> list[Any]:
    """Returns the leaves of a tree in order, without None."""
    return jax.tree_util.tree_leaves(values, is_leaf=is_tree_leaf)


def only_arrays(values: Sequence[Any]) -> list[Any]:
    """Returns the arrays among values, including those of Tensors."""
    return [unbox(value) for value in values if isinstance(value, (Tensor, jax.Array))]


def is_inexact(array: Any) -> bool:
    """Tells whether an array is floating or complex."""
    return bool(jnp.issubdtype(array.dtype, jnp.inexact))


def draw_like(arrays: Sequence[Any], seed: int) -> list[Any]:
    """Returns random arrays with the shapes and dtypes of others, for directions and cotangents."""
    return [draw_arrays(1, array, seed=seed + index)[0] for index, array in enumerate(arrays)]
