"""Checks of a backward formula's results against the schema, and their conversion to the inputs' form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.autograd.array_functions.array_function import Mask
from oplib.autograd.array_functions.masks import pick_given, pick_true
from oplib.autograd.engine.validation import is_expandable, sum_to
from oplib.errors import AutogradError, GradientTypeError, describe
from oplib.library.arguments.layout import EntryKind, Layout, TupleFlags, count_arrays
from oplib.library.arguments.recording import unbox
from oplib.library.arguments.trees import TreeEntry, is_none
from oplib.protocols import Values


def is_sole_tuple(result: Any) -> bool:
    """Tells whether a formula of an op with one argument, a tuple of tensors, returns its gradient bare."""
    return isinstance(result, tuple) and (len(result) != 1 or not isinstance(result[0], (list, tuple)))


@dataclass(frozen=True, slots=True, eq=False)
class GradientTargets:
    """The inputs of one call, as targets of gradients.

    Attributes:
        op: the name of the op, for errors.
        layout: the positions of the inputs among the arguments.
        inputs: the shape and dtype of each input.
        wanted: for each input, whether its gradient is needed.
        sums: a gradient may have the shape to which its input broadcasts.
        xp: ``jax.numpy``, or ``numpy`` for a formula on the host, because a callback may not use JAX.
    """

    op: str
    layout: Layout
    inputs: tuple[jax.ShapeDtypeStruct, ...]
    wanted: Mask
    xp: Any = jnp
    sums: bool = False

    def take(self, result: Any) -> Values:
        """Returns the wanted gradients among the results of a formula.

        Raises:
            AutogradError: wrong count, structure or shape, or a complex gradient of a real input.
            GradientTypeError: a result is no gradient.
        """
        values = self._gather(
            list(result) if isinstance(result, tuple) and not self._is_one(result) else [result]
        )
        self._check_count(values)
        flat: list[Any] = []
        for index, entry in enumerate(self.layout.entries):
            value = values[index] if index < len(values) else None
            if isinstance(entry, tuple):
                flat.extend(self._take_list(value, entry, self.layout.schema.arguments[index].name))
            elif isinstance(entry, TreeEntry):
                flat.extend(self._take_tree(value, entry, self.layout.schema.arguments[index].name))
            elif entry is EntryKind.array:
                flat.append(value)
            else:
                if value is not None and not self.layout.schema.arguments[index].is_tree:
                    self._refuse_value(value, index)
                flat.extend([None] * count_arrays(entry))
        return tuple(
            self._fit(value, shape, index)
            for index, (value, shape, want) in enumerate(zip(flat, self.inputs, self.wanted, strict=True))
            if want
        )

    def _is_one(self, result: Values) -> bool:
        """Tells whether a tuple is the gradient of the only argument, a pytree, and not one of several."""
        entry = self.layout.entries[0] if len(self.layout.entries) == 1 else None
        if isinstance(entry, TupleFlags):
            return is_sole_tuple(result)
        return isinstance(entry, TreeEntry) and (len(result) != 1 or type(result) is not tuple)

    def _gather(self, values: list[Any]) -> list[Any]:
        """Returns the gradients with those of a variadic argument as one list."""
        schema, count = self.layout.schema, self.layout.schema.num_positional
        if not schema.is_variadic or (len(values) == count and isinstance(values[-1], list)):
            return values
        entry = self.layout.entries[count - 1]
        end = count - 1 + (len(entry) if isinstance(entry, tuple) else 0)
        return [*values[: count - 1], values[count - 1 : end], *values[end:]]

    def _check_count(self, values: list[Any]) -> None:
        arguments = self.layout.schema.arguments
        pairs = enumerate(zip(arguments, self.layout.entries, strict=True))
        last = max(
            (
                index
                for index, (argument, entry) in pairs
                if argument.has_tensor or (isinstance(entry, TreeEntry) and entry.count)
            ),
            default=-1,
        )
        extra = values[len(arguments) :]
        has_lists = any(
            argument.is_tensor_list for argument in arguments
        )  # the structure is checked there, not the values
        if len(values) <= last or (extra if has_lists else pick_given(extra)):
            schema = self.layout.schema  # None for arguments by keyword only may be left out
            due = " or ".join(dict.fromkeys([str(schema.num_positional), str(len(arguments))]))
            raise AutogradError(
                f"{self.op}: the formula returned an incorrect number of gradients. Expected {due}, got "
                f"{len(values)}. Return one per argument of {schema}, None where there is none."
            )

    def _refuse_value(self, value: Any, index: int) -> None:
        raise AutogradError(
            f"{self.op}: the formula returned a gradient different than None at position {index} for "
            f"argument '{self.layout.schema.arguments[index].name}', which is not a tensor. Got "
            f"{describe(value)}. Return None there."
        )

    def _take_list(self, value: Any, entry: tuple[bool, ...], name: str) -> list[Any]:
        """Returns the gradients of a list of tensors, which must be a list of the same length."""
        if value is None and not entry:
            return []
        fitting = (list, tuple) if isinstance(entry, TupleFlags) else list
        if not isinstance(value, fitting) or len(value) != len(entry):
            raise AutogradError(
                f"{self.op}: the gradients must have the same structure as the inputs. Argument '{name}' is "
                f"a list of {len(entry)}, its gradient is {describe(value)}. Return a list of {len(entry)}, "
                "None for members without a gradient."
            )
        return pick_true(value, entry)

    def _take_tree(self, value: Any, entry: TreeEntry, name: str) -> list[Any]:
        """Returns the gradients of a pytree, which must have its structure; those of static leaves go."""
        if value is None:
            return [None] * entry.count
        try:
            return entry.pick(value, is_none)
        except ValueError as error:
            raise AutogradError(
                f"{self.op}: the gradients must have the same structure as the inputs. Argument '{name}' is "
                f"the tree {entry}, its gradient is {describe(value)}: {error}. Return a tree of this "
                "structure, with None for a leaf or a part without a gradient."
            ) from None

    def _fit(self, value: Any, shape: jax.ShapeDtypeStruct, index: int) -> Any:
        """Fits a gradient to its input: checks its shape, and converts its dtype."""
        if value is None:
            return None
        array = unbox(value)
        if not isinstance(array, (jax.Array, np.ndarray, np.generic)):
            raise GradientTypeError(
                f"{self.op}: the formula returned no tensor at position {index}: expected Variable or None "
                f"(a tensor or None). Got {type(value).__name__}. Return an array of the input's shape, or "
                "None."
            )
        grad = self.xp.asarray(array)
        if self.sums and grad.shape != shape.shape and is_expandable(shape.shape, grad.shape):
            grad = sum_to(grad, shape.shape)
        if grad.shape != shape.shape:
            raise refuse_shape(self.op, index, grad, shape)
        if self.xp.iscomplexobj(grad) and not jnp.issubdtype(shape.dtype, jnp.complexfloating):
            raise AutogradError(
                f"{self.op}: the formula returned an invalid gradient at index {index}: got "
                f"{describe(grad)}, but expected one for {describe(shape)}. Casting would lose the imaginary "
                "part. Return a real gradient, such as its real part."
            )
        return grad if grad.dtype == shape.dtype else grad.astype(shape.dtype)


def refuse_shape(op: str, index: int, grad: Any, target: Any) -> AutogradError:
    """Returns the error for a gradient that has not the shape of its input.

    Args:
        op: the name of the op.
        index: the position of the input.
        grad: the gradient.
        target: the input, or its shape and dtype.
    """
    advice = (
        "Sum it over the axes along which the input was broadcast."
        if is_expandable(tuple(target.shape), tuple(grad.shape))
        else "The shapes do not broadcast."
    )
    return AutogradError(
        f"{op}: the formula returned an invalid gradient at index {index}: got {describe(grad)}, but "
        f"expected the shape of its input, {describe(target)}. {advice} Return a gradient of that "
        "shape."
    )
