"""Pure functions of arrays, compiled once and differentiable to every order.

The tape runs compiled code only as array functions: a kernel, a backward formula, the derivative of a
formula. The derivative of an array function is an array function, so no order of differentiation needs code
of its own.
"""

from __future__ import annotations

import inspect
import itertools
import weakref
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from oplib.config import config
from oplib.protocols import AnyFunction

from .array_types import match_type, sum_gradient, zeros_of
from .compilation import is_uncompiled, name_traced
from .concreteness import VALUE_ERRORS
from .liveness import Arrays, drop_dead, find_dependent, find_forwarded, find_live_inputs
from .masks import Mask, map_given, pick_true, spread
from .tokens import next_token
from .width import WIDE, note_width

Plan = TypeVar("Plan", bound="BackwardPlan")


class ArrayFunction:
    """A function from flat arrays to a tuple of arrays (or None), with one jit and its own vjps.

    Attributes:
        function: the plain Python function.
        name: the name in graphs and errors.
        compiled: False runs it as plain Python on every call.
        is_formula: whether the results are gradients, one for each of several tensors. If a result does not
            depend on an input, a formula has no gradient with respect to it, where an op would have zeros.
        selects: for a formula, whether inputs that are only compared count as not read by the results.
        token: stands for the function in keys.
        run: the function that a call runs while ``config.compile_kernels`` is on: the compiled function,
            which is inlined under a trace, or the plain function.
        kept: a shared array, the default device and the results for this array; see
            :mod:`oplib.autograd.recording.kept_gradients`.
    """

    __slots__ = (
        "_jvps", "_plans", "_recorders", "_vjps", "compiled", "function", "is_formula", "kept", "name", "run",
        "selects", "token",
    )  # fmt: skip

    def __init__(
        self,
        function: Callable[..., Arrays],
        name: str,
        *,
        compiled: bool = True,
        is_formula: bool = False,
        selects: bool = False,
    ) -> None:
        self.function = function
        self.name = name
        self.compiled = compiled
        self.is_formula = is_formula
        self.selects = selects
        self.token = next_token()
        traced = drop_dead(function) if is_formula else function
        self.run: Callable[..., Arrays] = jax.jit(self._name(traced), inline=True) if compiled else function
        self.kept: tuple[Any, Any, Arrays] | None = None
        self._vjps: dict[tuple[Mask, Mask], ArrayFunction] = {}
        self._jvps: dict[Mask, ArrayFunction] = {}
        self._recorders: dict[Mask, Callable[..., Arrays]] = {}
        self._plans: list[BackwardPlan] | None = None

    def _name(self, function: Callable[..., Arrays]) -> Callable[..., Arrays]:
        """Returns a function under the name that logs and profiles show."""
        name = f"{self.name}.backward" if self.is_formula else self.name
        return name_traced(function, name)

    def __call__(self, *arrays: Any) -> Arrays:
        """Runs the function compiled, or as plain Python while ``config.compile_kernels`` is off."""
        return self.run(*arrays) if config.compile_kernels else self.function(*arrays)

    def vjp(self, wanted: Mask, present: Mask) -> ArrayFunction:
        """Returns the function ``(*inputs, *cotangents) -> gradients``.

        Args:
            wanted: for each input, whether its gradient is computed.
            present: for each output, whether it has a cotangent; the others count as zero.
        """
        derived = self._vjps.get((wanted, present))
        if derived is None:
            derived = self._vjps[wanted, present] = ArrayFunction(
                _pull_back(self.function, wanted, present), self.name, compiled=self.compiled
            )
        return derived

    def jvp(self, present: Mask) -> ArrayFunction:
        """Returns the function ``(*inputs, *tangents) -> tangents of the outputs``.

        Args:
            present: for each input, whether it has a tangent; the others count as constant.
        """
        derived = self._jvps.get(present)
        if derived is None:
            derived = self._jvps[present] = ArrayFunction(
                _push_forward(self.function, present), self.name, compiled=self.compiled
            )
        return derived

    def recorder(self, wanted: Mask) -> Callable[..., Arrays]:
        """Returns ``(*inputs) -> (plan, *outputs)``: the function together with the plan of its backward."""
        recorder = self._recorders.get(wanted)
        if recorder is None:

            def record(*arrays: Any) -> Arrays:
                outputs = self.function(*arrays)
                return self._hold(DerivedPlan(self, wanted, arrays, outputs)), *outputs

            recorder = self._recorders[wanted] = jax.jit(self._name(record), inline=True)
        return recorder if self.compiled and config.compile_kernels else inspect.unwrap(recorder)

    def hold_plans(self) -> None:
        """Lets the function hold the plans of its recorders, instead of JAX's caches of output trees."""
        self._plans = []

    def _hold(self, plan: Plan) -> Plan:
        if self._plans is not None and not is_uncompiled():
            plan.repetition = WeakRepetition(plan)
            self._plans.append(plan)
        return plan


class Forwarding(ArrayFunction):
    """An array function that only returns inputs, as the derivative of an addition does. XLA would copy them.

    Args:
        function: the plain Python function.
        name: the name in graphs and errors.
        indices: for each output, the index of the input that it is, or None.
    """

    __slots__ = ()

    def __init__(self, function: Callable[..., Arrays], name: str, indices: Sequence[int | None]) -> None:
        super().__init__(function, name)
        pick = make_gather(tuple(-1 if index is None else index for index in indices))
        self.run = lambda *arrays: pick((*arrays, None))


def _pull_back(function: Callable[..., Arrays], wanted: Mask, present: Mask) -> Callable[..., Arrays]:
    """Returns the vjp of a function in the tape's convention, for some inputs and some outputs."""

    def pulled_back(*arrays: Any) -> Arrays:
        partial, varied = bind_fixed(function, arrays, wanted)

        def differentiated(*values: Any) -> Arrays:
            return tuple(pick_true(partial(*values), present))

        outputs, pull = jax.vjp(differentiated, *varied)
        types = tuple(map(jax.typeof, outputs))
        summed = map(sum_gradient, map(conjugate, arrays[len(wanted) :]), types)
        return tuple(map(conjugate, pull(tuple(map(match_type, summed, types)))))

    return pulled_back


def _push_forward(function: Callable[..., Arrays], present: Mask) -> Callable[..., Arrays]:
    """Returns the jvp of a function for some inputs. It gives None for an output that can have no tangent."""

    def pushed_forward(*arrays: Any) -> Arrays:
        partial, varied = bind_fixed(function, arrays, present)
        fitting = [
            match_type(tangent.astype(value.dtype), jax.typeof(value))
            for tangent, value in zip(arrays[len(present) :], varied, strict=True)
        ]
        outputs, pushed = jax.jvp(partial, varied, tuple(fitting))
        return tuple(
            None if output is None or not has_gradient(output.dtype) else tangent
            for output, tangent in zip(outputs, pushed, strict=True)
        )

    return pushed_forward


def bind_fixed(function: AnyFunction, arrays: Sequence[Any], varied: Mask) -> tuple[AnyFunction, Arrays]:
    """Returns a function of some of the inputs, and these inputs. The others keep their values.

    Further arrays may follow the inputs.
    """
    inputs = arrays[: len(varied)]

    def partial(*values: Any) -> Any:
        return function(*spread(values, varied, inputs))

    return partial, tuple(pick_true(inputs, varied))


def conjugate(grad: Any) -> Any:
    """Converts a gradient between the conventions of JAX and of the tape.

    Real gradients are the same in both.

    For a real loss, JAX's gradient is ``dL/dx - i dL/dy``; that of torch and the tape is ``dL/dx + i dL/dy``.
    """
    return jnp.conj(grad) if jnp.iscomplexobj(grad) else grad


def shape_of(value: Any) -> jax.ShapeDtypeStruct:
    """Returns the shape and dtype of an array, tracer, type or number. A Python number stays weakly typed.

    Under ``jax.disable_jit`` this function receives numbers.
    """
    aval = value if isinstance(value, ShapedArray) else jax.typeof(value)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def has_gradient(dtype: Any) -> bool:
    """Returns whether values of this dtype can carry a gradient."""
    return jnp.issubdtype(dtype, jnp.inexact)


class BackwardPlan:
    """The derivative of one signature of an array function. It is made once, while the function is traced.

    A plan has no leaves as a pytree, so it leaves a jitted function as part of the output tree. Each
    signature of the jit has its own plan, and no look-up is needed.

    Attributes:
        outputs: shape and dtype of each output.
        wanted: for each input, whether its gradient is computed.
        sources: the origin of each residual, as an index into inputs, then outputs, then extras.
        pick: takes the residuals out of a sequence in this order.
        differentiable: for each output, whether it can carry a gradient.
        extras: computes the intermediates among the residuals from ``extra_reads``; None if there are none.
        extra_reads: the inputs and outputs that ``extras`` reads, as indices into inputs, then outputs.
        selects: whether residuals that the backward only compares count as not read, see ``Derivative``.
        sole: the backward for one cotangent, if it is known and never changes; else None.
        structure: the structure of the op's result, for the floor that knows ops.
        names: the names of the inputs and then of the outputs, if the function is an op; else empty.
        is_wide: whether the backward needs JAX's 64 bits: they were on when the function was traced, or an
            output has them.
        pattern: the facts shared with plans for other shapes, see :mod:`.record_pattern`; None until first
            used.
        token: stands for the plan in keys.
        repetition: an endless iterator that gives the plan, see :func:`register_plan`.
    """

    __slots__ = (
        "__weakref__",
        "_backwards",
        "differentiable",
        "extra_reads",
        "extras",
        "input_count",
        "is_wide",
        "names",
        "outputs",
        "pattern",
        "pick",
        "repetition",
        "selects",
        "sole",
        "sources",
        "structure",
        "token",
        "wanted",
    )

    def __init__(self, wanted: Mask, outputs: Sequence[Any], sources: Sequence[int]) -> None:
        self.wanted = wanted
        self.input_count = len(wanted)
        self.outputs = tuple(map_given(shape_of, outputs))
        self.is_wide = note_width() or any(
            output is not None and output.dtype in WIDE for output in self.outputs
        )
        self.differentiable: Mask = tuple(
            value is not None and has_gradient(value.dtype) for value in outputs
        )
        self.set_sources(sources)
        self.sole: ArrayFunction | None = None
        self.extras: ArrayFunction | None = None
        self.extra_reads: tuple[int, ...] = ()
        self.structure: Any = None
        self.names: tuple[str, ...] = ()
        self.selects = False
        self.token: Any = next_token()
        self.pattern: Any = None
        self.repetition: Any = itertools.repeat(self)
        self._backwards: dict[Mask, ArrayFunction] = {}

    def set_sources(self, sources: Sequence[int]) -> None:
        """Sets the origins of the residuals."""
        self.sources = tuple(sources)
        self.pick = make_gather(self.sources)

    @property
    def op_name(self) -> str:
        """The name of the called op, for errors."""
        return ""

    @property
    def is_surrogate(self) -> bool:
        """Whether the backward is declared not to be the derivative of the function."""
        return False

    def backward(self, present: Mask) -> ArrayFunction:
        """Returns ``(*residuals, *given cotangents) -> gradients``, with None for inputs not wanted."""
        backward = self._backwards.get(present)
        if backward is None:
            backward = self._backwards[present] = self._make_backward(present)
            if present == (True,):
                self.sole = backward
        return backward

    def _make_backward(self, present: Mask) -> ArrayFunction:
        raise NotImplementedError


class WeakRepetition:
    """Gives a plan as ``itertools.repeat`` does, and does not keep it alive.

    JAX's caches hold output trees. The plan of a local op must not stay in them.
    """

    __slots__ = ("_plan",)

    def __init__(self, plan: BackwardPlan) -> None:
        self._plan = weakref.ref(plan)

    def __next__(self) -> BackwardPlan | None:
        return self._plan()


def make_gather(indices: Sequence[int]) -> Callable[[Any], Any]:
    """Returns a function that picks these items of a list or tuple. It runs in C."""
    if len(indices) > 1:
        return itemgetter(*indices)
    # a slice gives a sequence; that of the last item has no end
    return itemgetter(slice(indices[0], indices[0] + 1 or None) if indices else slice(0))


def register_plan(kind: type[BackwardPlan]) -> None:
    """Lets plans of a class leave a compiled call as part of its output tree, without leaves.

    JAX rebuilds the tree at every recorded call. ``next(repetition, ())`` runs no Python frame for that.
    """
    # The plan of a function that JAX differentiates. The residuals are the inputs that its vjp reads.
    take: Any = next
    jax.tree_util.register_pytree_node(kind, lambda plan: ((), plan.repetition), take)


register_plan(BackwardPlan)


class DerivedPlan(BackwardPlan):
    """Finds the inputs that the vjp reads. If it cannot be traced, all inputs count as read."""

    __slots__ = ("_forwarded", "_function", "_inputs", "_types")

    def __init__(self, function: ArrayFunction, wanted: Mask, inputs: Arrays, outputs: Arrays) -> None:
        self._inputs = tuple(map(shape_of, inputs))
        self._types = tuple(map(jax.typeof, inputs))
        self._function = function
        differentiable = self._find_dependent(wanted, outputs)
        super().__init__(wanted, outputs, self._find_read_inputs(wanted, differentiable, outputs))
        self.differentiable = differentiable
        self.selects = function.selects

    def _find_dependent(self, wanted: Mask, outputs: Arrays) -> Mask:
        """Returns for each output whether it can have a gradient.

        The results of a formula are gradients. Such a result has a gradient if the formula reads an input
        with a gradient for it: the gradient of a bias does not depend on the weight. All other functions are
        ops: either all of their floating outputs have a gradient, or none.
        """
        floating = tuple(value is not None and has_gradient(value.dtype) for value in outputs)
        function = self._function
        if not function.is_formula or not function.compiled or all(wanted):
            return floating
        jaxpr = self._trace(function)
        if jaxpr is None:
            return floating
        depends = iter(find_dependent(jaxpr, wanted, skips_choices=function.selects))
        pairs = zip(outputs, floating, strict=True)
        return tuple([value is not None and next(depends) and flag for value, flag in pairs])

    def _find_read_inputs(self, wanted: Mask, present: Mask, outputs: Arrays) -> Sequence[int]:
        """Returns a mask of the wanted inputs that an output with a cotangent depends on.

        A formula gives None for the other inputs.
        """
        self._forwarded = (present, None)
        if not self._function.compiled:
            return range(len(wanted))
        cotangents = [shape_of(value) for value, has in zip(outputs, present, strict=True) if has]
        jaxpr = self._trace(self._function.vjp(wanted, present), *cotangents)
        if jaxpr is None:
            return range(len(wanted))
        live = find_live_inputs(jaxpr)
        self._forwarded = (present, find_forwarded(jaxpr))
        return [index for index in range(len(wanted)) if live[index]]

    def _trace(self, function: ArrayFunction, *cotangents: Any) -> Any:
        """Returns the jaxpr of a function for these inputs; None if it needs values, and runs uncompiled."""
        try:
            return jax.jit(function.function).trace(*self._inputs, *cotangents).jaxpr.jaxpr
        except VALUE_ERRORS:
            if not is_uncompiled():
                raise
            return None

    def _find_reached(self, present: Mask) -> Mask:
        """The wanted inputs on which an output with a cotangent depends; of a formula the others get None.

        Each gradient of a formula then shows by itself which inputs it does not depend on. A strict Hessian
        needs this.
        """
        whole = present == self.differentiable or not self._function.is_formula
        if whole or not self._function.compiled:
            return self.wanted
        jaxpr = jax.jit(self._function.function).trace(*self._inputs).jaxpr.jaxpr
        counted = [has for has, output in zip(present, self.outputs, strict=True) if output is not None]
        live = find_live_inputs(jaxpr, counted)
        return tuple(want and read for want, read in zip(self.wanted, live, strict=True))

    @property
    def op_name(self) -> str:  # noqa: D102  described in BackwardPlan
        return self._function.name

    def _make_backward(self, present: Mask) -> ArrayFunction:
        wanted = self._find_reached(present)
        full = self._function.vjp(wanted, present).function
        function = spread_gradients(_fill_dead(full, self._types, self.sources), wanted)
        name, (kind, indices) = self._function.name, self._forwarded
        if kind == present and indices is not None and not self.sources:
            cotangents = [index - len(self.wanted) for index in indices]
            return Forwarding(function, name, spread(cotangents, self.wanted))
        compiled = self._function.compiled
        return ArrayFunction(function, name, compiled=compiled, is_formula=True, selects=self.selects)


def spread_gradients(function: Callable[..., Arrays], wanted: Mask) -> Callable[..., Arrays]:
    """Returns a function that puts the gradients of the wanted inputs at their indices among all inputs.

    This is free inside a compiled function. In Python it would cost as much as a node of the engine.
    """
    return lambda *arrays: tuple(spread(function(*arrays), wanted))


def _fill_dead(
    function: Callable[..., Arrays], types: Arrays, live: tuple[int, ...]
) -> Callable[..., Arrays]:
    """Returns a function that takes only the live inputs. Zeros stand for the others, which are never read.

    In ``shard_map`` the zeros vary as the inputs did. JAX would sum the gradient over a replicated one.
    """

    def called_with_live(*arrays: Any) -> Arrays:
        full = [match_type(_make_zeros(kind), kind) for kind in types]
        for index, value in zip(live, arrays, strict=False):
            full[index] = value
        return function(*full, *arrays[len(live) :])

    return called_with_live


def _make_zeros(shape: Any) -> Any:
    """Returns zeros of a shape. A weakly typed scalar stays weakly typed, because promotion depends on it."""
    zeros = zeros_of(shape)
    return jnp.asarray(np.zeros((), shape.dtype).item()) if shape.weak_type and not shape.shape else zeros


register_plan(DerivedPlan)
