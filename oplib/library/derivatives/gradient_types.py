"""The varying mesh axes of gradients: a formula for one device, run on all devices of a ``shard_map``.

JAX types each value with the mesh axes over which it varies, and a gradient has the type of its input. So
the gradient of an input that all devices share is the sum of what each device finds. A cotangent that the
devices share counts once in that sum if each device has computed its result alike, and once for each device
if the result is a sum over the devices. See ADR 29.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import jax
import jax.numpy as jnp

from oplib.autograd.array_functions.array_function import Mask
from oplib.autograd.array_functions.array_types import find_varying, match_type, sum_gradient
from oplib.autograd.array_functions.masks import find_true
from oplib.errors import AutogradError, TracingError
from oplib.library.batching_and_sharding.bodies import OPAQUE, calls_any
from oplib.library.batching_and_sharding.paths import Path, Paths, find_paths
from oplib.library.batching_and_sharding.varying import (
    describe_axes,
    join_axes,
    list_reduced_axes,
    match_varying,
    vary,
)
from oplib.protocols import Values

Formula = Callable[..., Values]
Axes = frozenset[Any]


@dataclass(frozen=True, slots=True, eq=False)
class GradientTypes:
    """The types of one call inside ``shard_map``.

    Attributes:
        op: the name of the op.
        names: the argument of each input.
        inputs: the type of each input.
        results: the type of each result.
        paths: for each result, its paths from the inputs.
    """

    op: str
    names: tuple[str, ...]
    inputs: Values
    results: Values
    paths: Sequence[Paths]

    def classify(self, index: int, result: int) -> dict[Any, set[bool]]:
        """Tells how a result depends on an input, for each axis over which neither of them varies.

        Returns:
            The values that occur among the paths: True for a sum over the devices along the axis, False for a
            value that all of these devices compute alike.
        """
        passed = [path.reduced for path in self.list_paths(index, result)]
        shared = self.find_shared(index) - find_varying(self.results[result])
        return {axis: {axis in axes for axes in passed} for axis in shared}

    def find_shared(self, index: int) -> Axes:
        """Returns the axes along which all devices have the same value of an input."""
        manual = jax.sharding.get_abstract_mesh().manual_axes
        return frozenset(manual) - find_varying(self.inputs[index])

    def list_paths(self, index: int, result: int) -> list[Path]:
        """Returns the paths of the kernel from an input to a result."""
        return [path for path in self.paths[result] if path.operand == index]

    def bind(self, formula: Formula, wanted: Mask, present: Mask) -> Formula:
        """Returns a formula whose gradients have the types of their inputs.

        Args:
            formula: ``(*residuals, *given cotangents) -> wanted gradients``.
            wanted: for each input, whether its gradient is computed.
            present: for each result, whether it has a cotangent.
        """
        targets = find_true(wanted)
        if any(map(list_reduced_axes, (*self.inputs, *self.results))):
            return lambda *arrays: self._check_given(formula(*arrays), targets)
        sources = find_true(present)
        return _TypedFormula(self, formula, targets, sources).run

    def _check_given(self, grads: Sequence[Any], targets: Sequence[int]) -> Values:
        """Returns the gradients of a formula, unless a type is not the one that JAX requires."""
        for grad, index in zip(grads, targets, strict=True):
            due = self.inputs[index].to_ct_aval()
            if grad is not None and (own := jax.typeof(grad)) != due:
                raise TracingError(
                    f"{self.op}: the gradient of argument '{self.names[index]}' has another type than JAX "
                    "requires beside values that are reduced or unreduced over "
                    f"{describe_axes(list_reduced_axes(self.inputs[index]))}. Got {own}, expected {due}. "
                    "Cast it in the formula: jax.lax.pcast(grad, axes, to=...)."
                )
        return tuple(grads)


@dataclass(frozen=True, slots=True, eq=False)
class _TypedFormula:
    """A formula for some inputs and some results, given by their indices."""

    types: GradientTypes
    formula: Formula
    targets: list[int]
    sources: list[int]

    def run(self, *arrays: Any) -> Values:
        count = len(arrays) - len(self.sources)
        fitted = [
            _match(value, self.types.results[index])
            for value, index in zip(arrays[count:], self.sources, strict=True)
        ]
        trace = self._trace(arrays[:count], fitted)
        self._require_one_reading(trace)
        inputs = [self.types.inputs[index] for index in self.targets]
        masks = [self._find_masks(trace, number) for number in range(len(self.targets))]
        runs = {each: self._run_masked(trace, each) for each in dict.fromkeys(masks)}
        grads = [runs[each][index] for index, each in enumerate(masks)]
        return tuple(
            None if grad is None else _match(vary(grad, own), due)
            for grad, own, due in zip(grads, trace.axes, inputs, strict=True)
        )

    def _run_masked(self, trace: _Traced, masks: tuple[Axes, ...]) -> Values:
        """Runs the formula on masked cotangents; the residuals vary as these do, as JAX's rules require."""
        axes: Axes = frozenset().union(*masks)
        residuals = [vary(value, axes) for value in trace.residuals]
        return self.formula(*residuals, *map(_keep_on_first, trace.cotangents, masks))

    def _trace(self, residuals: Sequence[Any], cotangents: Sequence[Any]) -> _Traced:
        """Traces the formula on operands whose types it accepts.

        The cotangent of a sum over devices is given to each of them, so the gradients that it enters count
        once for each device. A formula that is JAX's own derivative of the kernel refuses such a cotangent,
        and does not need it: its gradients have the types of the inputs.
        """
        pairs = zip(cotangents, self.sources, strict=True)
        cast = [vary(value, self._find_summed(index)) for value, index in pairs]
        everywhere = match_varying([*residuals, *cast])
        own = [find_varying(jax.typeof(value)) for value in (*residuals, *cotangents)]
        for operands in ([*residuals, *cast], everywhere):
            try:
                return self._trace_on(operands, own)
            except (TypeError, ValueError):
                continue
        return self._trace_on([*residuals, *cotangents], own)

    def _trace_on(self, operands: Sequence[Any], own: Sequence[Axes]) -> _Traced:
        closed, shapes = jax.make_jaxpr(self.formula, return_shape=True)(*operands)
        is_opaque = calls_any(closed, OPAQUE)
        joined = join_axes(operands) if is_opaque else frozenset[Any]()
        types = zip(closed.out_avals, find_paths(closed, len(operands), own), strict=True)
        axes, paths = list[Axes](), list[Paths]()
        for shape in shapes:
            kind, passed = (None, frozenset[Any]()) if shape is None else next(types)
            axes.append(frozenset() if kind is None else joined | find_varying(kind))
            paths.append(passed)
        count = len(operands) - len(self.sources)
        return _Traced(operands[:count], operands[count:], axes, paths, is_opaque)

    def _find_summed(self, result: int) -> Axes:
        """Returns the axes over which a result is a sum over devices, from a wanted input that they share."""
        kinds = [self.types.classify(target, result) for target in self.targets]
        return frozenset(axis for each in kinds for axis, kind in each.items() if kind == {True})

    def _find_masks(self, trace: _Traced, number: int) -> tuple[Axes, ...]:
        """Returns for each cotangent the axes along which only the first device has it, for one gradient."""
        masks = list[Axes]()
        for result in self.sources:
            kinds = self.types.classify(self.targets[number], result)
            alike = frozenset(axis for axis, kind in kinds.items() if kind == {False})
            masks.append(alike & trace.axes[number])
        return tuple(masks)

    def _require_one_reading(self, trace: _Traced) -> None:
        """Raises if a gradient may be the share of one device or the sum of all shares.

        Raises:
            AutogradError: the paths of kernel and formula do not tell which of the two it is.
        """
        for number, target in enumerate(self.targets):
            for cotangent, result in enumerate(self.sources):
                kinds = self.types.classify(target, result)
                for axis in self.types.find_shared(target):
                    reason = self._find_ambiguity(trace, number, cotangent, axis, kinds.get(axis))
                    if reason is not None:
                        name = self.types.names[target]
                        raise AutogradError(
                            f"{self.types.op}: the backward formula does not determine the gradient of "
                            f"argument '{name}' in shard_map. Result {result} of the kernel "
                            f'{reason.format(axis=repr(axis))}, or register "derive".'
                        )

    def _find_ambiguity(
        self, trace: _Traced, number: int, cotangent: int, axis: Any, kinds: set[bool] | None
    ) -> str | None:
        """Returns why the share of a cotangent in a gradient has two readings along an axis, or None.

        Args:
            trace: of the formula.
            number: the index of the gradient among those of the formula.
            cotangent: the index of the cotangent among those of the formula.
            axis: an axis along which the devices share the argument.
            kinds: as :meth:`GradientTypes.classify` returns them; None if the result varies over the axis.
        """
        kernel = self.types.list_paths(self.targets[number], self.sources[cotangent])
        formula = trace.list_paths(number, cotangent)
        if kinds is None:
            summed = max((path.count_sums(axis) for path in formula), default=0)
            most = max((path.count_sums(axis) for path in kernel), default=0)
            return _SUMMED if axis not in trace.axes[number] and 0 < summed <= most else None
        if kinds == {True, False}:
            return None if trace.is_summed(number, cotangent, axis) else _MIXED
        if kinds == {False} and axis in trace.axes[number]:
            return _ALIKE if any(axis in path.scaled for path in formula) else None
        if kinds == {True} and all(axis in path.scaled for path in kernel) and not trace.is_opaque:
            return None if all(axis in path.scaled for path in formula) else _TOTAL
        return None


_MIXED = (
    "adds values that are reduced over {axis} to values that are not, and both depend on the argument. "
    "Return the two parts as two results, reduce the gradient in the formula with jax.lax.psum"
)
_SUMMED = (
    "varies over {axis}, and the kernel sums values over this axis that depend on the argument. The formula "
    "sums the cotangent as often: as the transpose of that sum, or over the devices that share the argument. "
    'Return the gradient of one device, cast with jax.lax.pcast(gradient, {axis}, to="varying") if it does '
    "not vary"
)
_ALIKE = (
    "is computed alike by all devices along {axis}, and the formula multiplies its cotangent by values that "
    "differ between them. Reduce the gradient in the formula with jax.lax.psum or pmean"
)
_TOTAL = (
    "sums over {axis} products with values that differ between the devices, and the formula multiplies its "
    "cotangent by none of these values. Return the gradient of one device, without the sum over devices"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Traced:
    """The operands on which a formula has been traced, and the axes and paths of its gradients.

    Attributes:
        residuals: with the types that the formula accepts.
        cotangents: likewise.
        axes: for each gradient, the axes over which it varies.
        paths: for each gradient, its paths from the operands.
        is_opaque: whether the formula contains a call that JAX cannot look into.
    """

    residuals: Sequence[Any]
    cotangents: Sequence[Any]
    axes: list[Axes]
    paths: list[Paths]
    is_opaque: bool

    def list_paths(self, number: int, cotangent: int) -> list[Path]:
        """Returns the paths of the formula from a cotangent to a gradient."""
        index = len(self.residuals) + cotangent
        return [path for path in self.paths[number] if path.operand == index]

    def is_summed(self, number: int, cotangent: int, axis: Any) -> bool:
        """Tells whether the formula reduces over an axis on each path from a cotangent to a gradient."""
        sums = {axis in path.reduced for path in self.list_paths(number, cotangent)}
        return axis not in self.axes[number] and sums != {False}


def _match(value: Any, due: Any) -> Any:
    return match_type(sum_gradient(value, due), due)


def _keep_on_first(cotangent: Any, axes: Axes) -> Any:
    """Returns a cotangent on the first device along some axes, and zeros on the others."""
    if not axes:
        return cotangent
    is_first = reduce(and_, (jax.lax.axis_index(axis) == 0 for axis in sorted(axes)))
    return jnp.where(is_first, cotangent, 0)
