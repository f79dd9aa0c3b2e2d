"""A function and the point at which its derivatives are checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from types import FunctionType
from typing import Any, cast

import jax.numpy as jnp
import numpy as np

from oplib.autograd.nodes.edges import walk_nodes
from oplib.errors import ArgumentError, ArgumentValueError, GradcheckError, describe
from oplib.protocols import Values
from oplib.tensor import Storage, Tensor, needs_grad

from .coordinates import Vector, count_coordinates, from_rows, stack_rows, to_coordinates

Func = Callable[..., Any]


class Problem:
    """A function, its inputs, and its outputs at these inputs.

    Attributes:
        func: the function.
        inputs: the arguments. Floating and complex Tensors are in double precision by default.
        wanted: the indices of the inputs to check: Tensors that require grad.
        outputs: the results at the inputs, as a tuple.
        differentiable: the indices of the outputs that require grad.
        formula: how errors call the backward formula that is checked; empty if it may be one of several.
        single: the Tensors below double precision that the function captures, for errors.
    """

    def __init__(
        self, func: Func, inputs: Sequence[Any], *, in_double: bool = True, formula: str = ""
    ) -> None:
        self.func = func
        self.formula = formula
        self.inputs = tuple(map(to_double, inputs)) if in_double else tuple(inputs)
        self.wanted = tuple(index for index, value in enumerate(self.inputs) if needs_grad(value))
        if not self.wanted:
            raise ArgumentValueError(
                "gradcheck: it expects at least one input tensor to require gradient, but none of the inputs "
                f"has requires_grad=True. Got {describe(list(inputs))}. Set requires_grad=True on those to "
                "be checked."
            )
        self.single = _list_single(func) if in_double else ""
        self.outputs = call_in_double(func, self.inputs)
        self.differentiable = tuple(index for index, value in enumerate(self.outputs) if needs_grad(value))

    @property
    def wanted_inputs(self) -> list[Tensor]:
        """The inputs that are checked."""
        return [self.inputs[index] for index in self.wanted]

    @property
    def differentiable_outputs(self) -> list[Tensor]:
        """The outputs that require grad."""
        return [self.outputs[index] for index in self.differentiable]

    @cached_property
    def surrogates(self) -> list[str]:
        """The names of the ops in the graph whose formula is declared a surrogate gradient."""
        names: set[str] = set()
        for node in walk_nodes([output.grad_fn for output in self.differentiable_outputs]):
            plan = getattr(node, "plan", None)
            if plan is not None and plan.is_surrogate:
                names.add(plan.op_name)
            names.update(getattr(getattr(node, "_forward_cls", None), "_surrogates", tuple)())
        return sorted(names)

    @property
    def inexact(self) -> tuple[int, ...]:
        """The indices of floating and complex outputs, whether they require grad or not."""
        return tuple(index for index, value in enumerate(self.outputs) if is_inexact_tensor(value))

    def derive_along(self, index: int, direction: Vector, eps: float, outputs: Sequence[int]) -> list[Vector]:
        """Returns the central difference of some outputs along a direction of one input."""
        return self._derive(index, direction[None], eps, outputs)[0]

    def _derive(
        self, index: int, directions: Vector, eps: float, outputs: Sequence[int]
    ) -> list[list[Vector]]:
        """Returns the central differences of some outputs along each of some directions of one input."""
        center, steps = to_coordinates(self.inputs[index].array), eps * directions
        points = np.stack([center + steps, center - steps], 1).reshape(2 * len(steps), center.size)
        arrays = from_rows(points, self.inputs[index].array)
        values = [self._values_at(index, point, outputs) for point in arrays]
        return [
            [(high - low) / (2 * eps) for high, low in zip(above, below, strict=True)]
            for above, below in zip(values[::2], values[1::2], strict=True)
        ]

    def numerical_jacobian(
        self, index: int, eps: float, outputs: Sequence[int]
    ) -> list[np.ndarray[Any, Any]]:
        """Returns for each output the derivatives with respect to one input: a row per input entry."""
        rows = self._derive(index, np.eye(count_coordinates(self.inputs[index].array)), eps, outputs)
        indices = enumerate(outputs)
        return [stack_rows([row[at] for row in rows], self.outputs[output].array) for at, output in indices]

    def _values_at(self, index: int, point: Any, outputs: Sequence[int]) -> list[Vector]:
        """Returns outputs at another point. The Tensor stays the same: a function may have captured it."""
        storage = self.inputs[index]._storage
        kept = storage.array
        storage.array = point
        try:
            results = as_tuple(self.func(*self.inputs))
            return [to_coordinates(self._check_alike(results, output)) for output in outputs]
        finally:
            storage.array = kept

    def _check_alike(self, results: Sequence[Any], output: int) -> Any:
        """Returns the array of an output, after checking that its shape and dtype have not changed."""
        due = self.outputs[output].array
        got = results[output].array if output < len(results) and isinstance(results[output], Tensor) else None
        if got is None or got.shape != due.shape or got.dtype != due.dtype:
            raise GradcheckError(
                f"gradcheck: output {output} of the function changes its shape or dtype when an input "
                f"changes a little. Got {describe(got)} after {describe(due)}. Check at a point where the "
                "function is smooth."
            )
        return got


def call_in_double(func: Func, inputs: Sequence[Any]) -> Values:
    """Returns the results of a function at inputs in double precision.

    Raises:
        ArgumentError: it mixes them with Tensors that it captures.
    """
    try:
        return as_tuple(func(*inputs))
    except ArgumentError as error:
        single = _list_single(func)
        if not single or "dtype" not in str(error):
            raise
        raise ArgumentError(
            f"gradcheck: the function gets inputs in double precision, and captures {single}. It fails: "
            f"{error} Make what it captures an argument, or use tensor.double()."
        ) from error


def _list_single(func: Func) -> str:
    """Returns the names and types of the Tensors below double precision that a function captures."""
    func = inspect.unwrap(func)
    if not isinstance(func, FunctionType):
        return ""
    found = inspect.getclosurevars(func)
    values = {**found.globals, **found.nonlocals}.items()
    return ", ".join(f"{name} {describe(value)}" for name, value in values if _is_single(value))


def _is_single(value: Any) -> bool:
    return is_inexact_tensor(value) and value.array.dtype not in (np.float64, np.complex128)


def as_tuple(values: Any) -> Values:
    """Returns one or several values as a tuple."""
    return tuple(cast("Sequence[Any]", values)) if isinstance(values, (tuple, list)) else (values,)


def is_inexact_tensor(value: Any) -> bool:
    """Returns whether a value is a floating or complex Tensor."""
    return isinstance(value, Tensor) and bool(jnp.issubdtype(value.array.dtype, jnp.inexact))


def to_double(value: Any) -> Any:
    """Returns a floating or complex Tensor in double precision, and any other value unchanged.

    A leaf in double precision is returned itself, so that a function that captures it is checked too. Any
    other Tensor becomes a new leaf. Its entries can then change without changing the original.
    """
    if not is_inexact_tensor(value):
        return value
    double = np.dtype(np.complex128 if value.array.dtype.kind == "c" else np.float64)
    storage = value._storage
    # one of its own, and no view
    is_whole = type(storage) is Storage and storage.array is value.array
    if value.array.dtype == double and value.is_leaf and is_whole:
        return value
    return Tensor.from_array(value.array.astype(double), requires_grad=value.requires_grad)
