"""Pure functions of arrays, compiled once and differentiable to every order.

Everything compiled that the tape runs is one of these: a kernel, a backward formula, the derivative of a
formula. The derivative of one is again one, which is why no order of differentiation needs code of its own.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.config import config

from .array_types import match_type, sum_gradient
from .concreteness import VALUE_ERRORS
from .liveness import find_forwarded, find_live_inputs
from .width import note_width

Arrays = tuple[Any, ...]
Mask = tuple[bool, ...]


class ArrayFunction:
    """A function of flat arrays that gives a tuple of arrays (or None), with one jit and its own vjps.

    Attributes:
        function: the plain Python function.
        name: shown in graphs and errors.
        compiled: False runs it as plain Python on every call.
        is_formula: it gives gradients, one for each of several tensors: what one does not depend on has no
            gradient by it at all, where by an output of an op it would have zeros.
        run: what a call runs, while ``config.compile_kernels`` is on: the function compiled, inlined where it
            is called under a trace; or the function itself.
    """

    __slots__ = ("_jvps", "_recorders", "_vjps", "compiled", "function", "is_formula", "name", "run")

    def __init__(
        self, function: Callable[..., Arrays], name: str, *, compiled: bool = True, is_formula: bool = False
    ) -> None:
        self.function = function
        self.name = name
        self.compiled = compiled
        self.is_formula = is_formula
        self.run: Callable[..., Arrays] = jax.jit(function, inline=True) if compiled else function
        self._vjps: dict[tuple[Mask, Mask], ArrayFunction] = {}
        self._jvps: dict[Mask, ArrayFunction] = {}
        self._recorders: dict[Mask, Callable[..., Arrays]] = {}

    def __call__(self, *arrays: Any) -> Arrays:
        """Runs it: as one compiled call, or as plain Python where ``config.compile_kernels`` is off."""
        return self.run(*arrays) if config.compile_kernels else self.function(*arrays)

    def vjp(self, wanted: Mask, given: Mask) -> ArrayFunction:
        """Returns the function ``(*inputs, *cotangents) -> gradients``.

        Args:
            wanted: for each input, whether its gradient is computed.
            given: for each output, whether it has a cotangent; the others count as zero.
        """
        found = self._vjps.get((wanted, given))
        if found is None:
            found = self._vjps[wanted, given] = ArrayFunction(
                _pull_back(self.function, wanted, given), self.name, compiled=self.compiled
            )
        return found

    def jvp(self, given: Mask) -> ArrayFunction:
        """Returns the function ``(*inputs, *tangents) -> tangents of the outputs``.

        Args:
            given: for each input, whether it has a tangent; the others count as constant.
        """
        found = self._jvps.get(given)
        if found is None:
            found = self._jvps[given] = ArrayFunction(
                _push_forward(self.function, given), self.name, compiled=self.compiled
            )
        return found

    def recorder(self, wanted: Mask) -> Callable[..., Arrays]:
        """Returns ``(*inputs) -> (plan, *outputs)``: the function together with the plan of its backward."""
        found = self._recorders.get(wanted)
        if found is None:

            def record(*arrays: Any) -> Arrays:
                outputs = self.function(*arrays)
                return DerivedPlan(self, wanted, arrays, outputs), *outputs

            found = self._recorders[wanted] = jax.jit(record, inline=True)
        return found if self.compiled and config.compile_kernels else inspect.unwrap(found)


class Forwarding(ArrayFunction):
    """One that only hands inputs on, as the derivative of an addition does: calling XLA would copy them.

    Args:
        function: the plain Python function.
        name: shown in graphs and errors.
        places: for each output, which input it is, or None.
    """

    __slots__ = ()

    def __init__(self, function: Callable[..., Arrays], name: str, places: Sequence[int | None]) -> None:
        super().__init__(function, name)
        pick = make_gather(tuple(-1 if place is None else place for place in places))
        self.run = lambda *arrays: pick((*arrays, None))


def _pull_back(function: Callable[..., Arrays], wanted: Mask, given: Mask) -> Callable[..., Arrays]:
    """The vjp of a function, as the tape has it, by some inputs and from the cotangents of some outputs."""

    def pulled_back(*arrays: Any) -> Arrays:
        inputs, cotangents = arrays[: len(wanted)], arrays[len(wanted) :]

        def partial(*varied: Any) -> Arrays:
            rest = iter(varied)
            outputs = function(
                *(next(rest) if want else value for want, value in zip(wanted, inputs, strict=True))
            )
            return tuple(output for output, has in zip(outputs, given, strict=True) if has)

        outputs, pull = jax.vjp(partial, *(value for want, value in zip(wanted, inputs, strict=True) if want))
        types = tuple(map(jax.typeof, outputs))
        summed = map(sum_gradient, map(conjugate, cotangents), types)
        return tuple(map(conjugate, pull(tuple(map(match_type, summed, types)))))

    return pulled_back


def _push_forward(function: Callable[..., Arrays], given: Mask) -> Callable[..., Arrays]:
    """The jvp of a function by some inputs; None for an output that can have no tangent."""

    def pushed_forward(*arrays: Any) -> Arrays:
        inputs, tangents = arrays[: len(given)], arrays[len(given) :]
        varied = [value for has, value in zip(given, inputs, strict=True) if has]

        def partial(*values: Any) -> Arrays:
            rest = iter(values)
            return function(*(next(rest) if has else value for has, value in zip(given, inputs, strict=True)))

        fitting = [
            match_type(tangent.astype(value.dtype), jax.typeof(value))
            for tangent, value in zip(tangents, varied, strict=True)
        ]
        outputs, pushed = jax.jvp(partial, tuple(varied), tuple(fitting))
        return tuple(
            None if output is None or not has_gradient(output.dtype) else tangent
            for output, tangent in zip(outputs, pushed, strict=True)
        )

    return pushed_forward


def conjugate(grad: Any) -> Any:
    """Turns a gradient as JAX has it into one as the tape has it, or back; a real one is the same in both.

    For a real loss JAX's is ``dL/dx - i dL/dy``; torch's and the tape's is ``dL/dx + i dL/dy``.
    """
    return jnp.conj(grad) if jnp.iscomplexobj(grad) else grad


def shape_of(value: Any) -> jax.ShapeDtypeStruct:
    """The shape and dtype of an array or tracer without its values; a Python number stays weakly typed.

    Under ``jax.disable_jit`` the number itself comes here.
    """
    aval = jax.typeof(value)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def has_gradient(dtype: Any) -> bool:
    """Whether values of this dtype can carry a gradient."""
    return jnp.issubdtype(dtype, jnp.inexact)


class BackwardPlan:
    """How one signature of an array function differentiates: made once, while the function is traced.

    A plan has no leaves as a pytree, so it leaves a jitted function as part of its output tree: each
    signature of the jit has its own, and no table of ours is looked up.

    Attributes:
        outputs: shape and dtype of each output.
        wanted: for each input, whether its gradient is computed.
        sources: where each residual comes from, as an index into inputs, then outputs, then extras.
        pick: takes the residuals, or what belongs to them, out of a tuple in this order.
        pick_both: takes the residuals and then their storages out of one tuple of both.
        differentiable: for each output, whether it can carry a gradient.
        extras: how intermediates among the residuals are computed from ``extra_reads``; None without any.
        extra_reads: the inputs and outputs that ``extras`` reads, as indices into inputs, then outputs.
        sole: the backward from one cotangent, where it is known and never changes; else None.
        structure: how the outputs stand in the result of the op, for the floor that knows ops.
        names: of the inputs and then the outputs, where the function is an op; else empty.
        is_wide: JAX's 64 bits were on when the function was traced, and have to be for the backward.
        pattern: what it shares with plans for other shapes, see :mod:`.record_pattern`; None until asked for.
        repetition: gives the plan, without end, see :func:`register_plan`.
    """

    __slots__ = (
        "__weakref__",
        "differentiable",
        "extra_reads",
        "extras",
        "gather_reads",
        "input_count",
        "is_wide",
        "names",
        "outputs",
        "pattern",
        "pick",
        "pick_both",
        "repetition",
        "sole",
        "sources",
        "structure",
        "wanted",
    )

    def __init__(self, wanted: Mask, outputs: Sequence[Any], sources: Sequence[int]) -> None:
        self.wanted = wanted
        self.is_wide = note_width()
        self.input_count = len(wanted)
        self.outputs = tuple(None if value is None else shape_of(value) for value in outputs)
        self.differentiable: Mask = tuple(
            value is not None and has_gradient(value.dtype) for value in outputs
        )
        self.set_sources(sources)
        self.sole: ArrayFunction | None = None
        self.extras: ArrayFunction | None = None
        self.extra_reads: tuple[int, ...] = ()
        self.gather_reads = make_gather(())
        self.structure: Any = None
        self.names: tuple[str, ...] = ()
        self.pattern: Any = None
        self.repetition = itertools.repeat(self)

    def set_sources(self, sources: Sequence[int]) -> None:
        """Says where the residuals come from."""
        self.sources = tuple(sources)
        self.pick = make_gather(self.sources)
        count = max([self.input_count + len(self.outputs), *(source + 1 for source in sources)])
        self.pick_both = make_gather((*sources, *(count + source for source in sources)))

    @property
    def op_name(self) -> str:
        """What was called, for errors."""
        return ""

    def backward(self, given: Mask) -> ArrayFunction:
        """Returns ``(*residuals, *given cotangents) -> gradients``, with None for inputs not wanted."""
        raise NotImplementedError


def make_gather(indices: tuple[int, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Returns a function that picks these places of a tuple as a tuple, at the speed of C."""
    if not indices:
        return _gather_nothing
    if len(indices) == 1:
        return itemgetter(slice(indices[0], indices[0] + 1))  # of a tuple again a tuple
    return itemgetter(*indices)


def _gather_nothing(_: tuple[Any, ...]) -> tuple[Any, ...]:
    return ()


def register_plan(kind: type[BackwardPlan]) -> None:
    """Lets plans of a class leave a compiled call as a part of its output tree, without leaves.

    JAX puts the tree together at every recorded call: ``next(repetition, ())`` runs no frame of Python.
    """
    take: Any = next  # JAX's type asks for a function of exactly these two
    jax.tree_util.register_pytree_node(kind, lambda plan: ((), plan.repetition), take)


register_plan(BackwardPlan)


class DerivedPlan(BackwardPlan):
    """The plan of a function that JAX differentiates: the residuals are the inputs its vjp really reads."""

    __slots__ = ("_backwards", "_forwarded", "_function", "_inputs", "_types")

    def __init__(self, function: ArrayFunction, wanted: Mask, inputs: Arrays, outputs: Arrays) -> None:
        self._inputs = tuple(shape_of(value) for value in inputs)
        self._types = tuple(map(jax.typeof, inputs))
        self._function = function
        self._backwards: dict[Mask, ArrayFunction] = {}
        differentiable = tuple(value is not None and has_gradient(value.dtype) for value in outputs)
        super().__init__(wanted, outputs, self._find_read_inputs(wanted, differentiable, outputs))

    def _find_read_inputs(self, wanted: Mask, given: Mask, outputs: Arrays) -> Sequence[int]:
        """Looks into the vjp; of what cannot be traced, or is not to be, all inputs count as read."""
        self._forwarded = (given, None)
        if not self._function.compiled:
            return range(len(wanted))
        cotangents = [shape_of(value) for value, has in zip(outputs, given, strict=True) if has]
        pulled_back = self._function.vjp(wanted, given)
        try:
            jaxpr = jax.jit(pulled_back.function).trace(*self._inputs, *cotangents).jaxpr.jaxpr
        except VALUE_ERRORS:
            if config.compile_kernels:
                raise
            return range(len(wanted))
        live = find_live_inputs(jaxpr)
        self._forwarded = (given, find_forwarded(jaxpr))
        return [place for place in range(len(wanted)) if live[place]]

    def _find_reached(self, given: Mask) -> Mask:
        """The wanted inputs on which an output with a cotangent depends; of a formula the others get None.

        So it is known of each gradient by itself what it does not depend on, as a strict Hessian asks.
        """
        whole = given == self.differentiable or not self._function.is_formula
        if whole or not self._function.compiled:
            return self.wanted
        jaxpr = jax.jit(self._function.function).trace(*self._inputs).jaxpr.jaxpr
        counted = [has for has, output in zip(given, self.outputs, strict=True) if output is not None]
        live = find_live_inputs(jaxpr, counted)
        return tuple(want and read for want, read in zip(self.wanted, live, strict=True))

    @property
    def op_name(self) -> str:  # noqa: D102  described in Plan
        return self._function.name

    def backward(self, given: Mask) -> ArrayFunction:  # noqa: D102  described in Plan
        found = self._backwards.get(given)
        if found is None:
            wanted = self._find_reached(given)
            full = self._function.vjp(wanted, given).function
            function = spread_gradients(_fill_dead(full, self._types, self.sources), wanted)
            kind, places = self._forwarded
            if kind == given and places is not None and not self.sources:
                cotangents = iter([place - len(self.wanted) for place in places])
                forwarded = [next(cotangents) if want else None for want in self.wanted]
                found = Forwarding(function, self._function.name, forwarded)
            else:
                compiled = self._function.compiled
                found = ArrayFunction(function, self._function.name, compiled=compiled, is_formula=True)
            self._backwards[given] = found
            if given == (True,):
                self.sole = found
        return found


def spread_gradients(function: Callable[..., Arrays], wanted: Mask) -> Callable[..., Arrays]:
    """Puts the gradients of the wanted inputs at their places among all inputs.

    Where this is compiled with the function it costs nothing, and in Python as much as a node of the engine.
    """

    def spread(*arrays: Any) -> Arrays:
        gradients = iter(function(*arrays))
        return tuple([next(gradients) if want else None for want in wanted])

    return spread


def _fill_dead(
    function: Callable[..., Arrays], types: Arrays, live: tuple[int, ...]
) -> Callable[..., Arrays]:
    """Calls a function with its live inputs only; the others are never read, so zeros stand for them.

    In ``shard_map`` these vary as the inputs did: over a replicated one JAX would sum the gradient.
    """

    def called_with_live(*arrays: Any) -> Arrays:
        full = [match_type(_make_zeros(kind), kind) for kind in types]
        for place, value in zip(live, arrays, strict=False):
            full[place] = value
        return function(*full, *arrays[len(live) :])

    return called_with_live


def _make_zeros(shape: Any) -> Any:
    """Zeros of a shape; a Python number again where it was one, since promotion goes by that."""
    zeros = jnp.zeros(shape.shape, shape.dtype)
    return jnp.asarray(np.zeros((), shape.dtype).item()) if shape.weak_type and not shape.shape else zeros


register_plan(DerivedPlan)
