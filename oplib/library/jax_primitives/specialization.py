"""Specializations: one op with fixed static arguments, and everything compiled for it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Sequence
from functools import cache, cached_property, partial
from typing import Any, TypeVar

import jax

from oplib.autograd.array_functions.array_function import ArrayFunction, BackwardPlan, DerivedPlan, Mask
from oplib.autograd.array_functions.compilation import are_concrete, is_jit_disabled, rename_function
from oplib.autograd.array_functions.liveness import is_costly
from oplib.autograd.array_functions.masks import pick_true, spread
from oplib.autograd.array_functions.residual_function import ResidualFunction, record_plain_run
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.structure import Structure
from oplib.library.derivatives.jvp_rule import Pushed
from oplib.library.kernels.tracing import any_traced
from oplib.library.op_objects.overload import OpOverload
from oplib.protocols import AnyFunction, Values
from oplib.tensor.devices.memory import require_memory
from oplib.tensor.storage.fresh import is_large
from oplib.tensor.views import Chain, ViewStorage
from oplib.tensor.views.chain import Forms
from oplib.tracebacks import carry_errors

from .bound_call import BoundCall
from .plain_function import bind_plain, make_plain_function
from .primitive import Carrier
from .rule_call import push_call

Outputs = TypeVar("Outputs", bound=Sequence[Any])
Recorded = Values  # plan, outputs and extras, flat: the fastest return value of a jitted call
CAPACITY = 256
_uses = itertools.count()


_MOST_VIEWS = 64
"""Of which one specialization keeps programs; views of ever new places fill the table again."""


class Specialization:
    """The cached jits of an overload for one layout; each ``jax.jit`` has one executable per signature.

    Attributes:
        overload: the op.
        layout: the static arguments and the positions of the arrays.
        call: the bound call, as a parameter for the carrier.
        run: ``(*arrays) -> (structure, outputs)``.
        run_plain: as ``run``, without a jit around it.
        run_one: as ``run``, for an op with one result, which it returns bare.
        run_donating: as ``run``, but reuses the buffers of donated arguments.
        recorders: ``(*arrays) -> (plan, *outputs, *extras)``, by the pattern of needed gradients.
        run_forward: ``(wanted, arrays) -> (outputs, plan, extras)``, by the registered forward.
        pushers: the functions of :meth:`pusher`, by the pattern of inputs with a tangent.
        last_use: a number that grows with every look-up, for the cache.
    """

    __slots__ = (
        "__dict__",  # for what is made at its first use
        "_carrier",
        "_code",
        "_plain",
        "_rules",
        "call",
        "last_use",
        "layout",
        "overload",
        "pushers",
        "recorders",
        "run",
        "run_donating",
        "run_forward",
        "run_one",
        "run_plain",
    )

    def __init__(
        self, overload: OpOverload, layout: Layout, carrier: Carrier, donated: Sequence[int]
    ) -> None:
        self.overload = overload
        self.layout = layout
        self.call = call = BoundCall(overload, layout, carrier.bind)
        self._code = call.code
        self.last_use = 0
        self.recorders = _Recorders(self._make_recorder)
        self._plain: dict[bool, ArrayFunction] = {}
        self.pushers: dict[Mask, ArrayFunction] = {}
        self._rules: dict[tuple[Mask, bool], Callable[..., Pushed]] = {}

        def run(*arrays: Any) -> tuple[Structure, Values]:
            structure, outputs = carrier.run(call, arrays)
            return structure, self._check_sizes(tuple(outputs))

        def run_one(*arrays: Any) -> Any:
            return self._check_sizes(carrier.bind(call, arrays))[0]

        rename_function(run, overload.name())
        rename_function(run_one, overload.name())
        self.run_plain = run
        self.run_forward = partial(carrier.run_forward, call)
        self.run: Callable[..., tuple[Structure, Values]] = _compile(run, call)
        self.run_one: AnyFunction = _compile(run_one, call)
        self.run_donating = jax.jit(carry_errors(run), donate_argnums=tuple(donated)) if donated else self.run
        self._carrier = carrier

    @cached_property
    def run_in_buffer(self) -> Any:
        """As ``run_one``, but reuses the buffer of the first array."""
        return jax.jit(self.run_one, donate_argnums=0)

    @cached_property
    def buffer_calls(self) -> dict[Hashable, bool]:
        """Whether the result of ``run_in_buffer`` fits into the buffer, by signature."""
        return {}

    @cached_property
    def _in_views(self) -> dict[tuple[Chain, Mask | None], Forms]:
        return {}

    def run_in_view(self, view: ViewStorage, wanted: Mask | None, whole: Any, *others: Any) -> Any:
        """Runs an op with one result on a view, and puts the result in the place of the view, in one program.

        Args:
            view: the storage of the view, which is the first argument of the op.
            wanted: for each argument whether it needs a gradient; None if the call is not recorded.
            whole: the array of its base.
            *others: the other arrays.

        Returns:
            The new array of the base; for a recorded call this, the array of the view if the backward reads
            it, and what the recorder returns. None if the write needs more than one program: the result does
            not fit into the view, or the base is large.
        """
        chain, call = view.chain, self.call
        forms = self._in_views.get((chain, wanted))
        if forms is None:
            if call.is_plain or call.is_transient or is_large(chain.in_shape) or not chain.is_injective:
                return None
            if len(self._in_views) == _MOST_VIEWS:
                self._in_views.clear()
            run = partial(_run_in_view, chain, self.run_one if wanted is None else self.recorders[wanted])
            forms = self._in_views[chain, wanted] = Forms(run, 1 + len(others))
        return forms.run(view.starts, whole, *others)

    @cached_property
    def function(self) -> ArrayFunction:
        """The op as a pure array function, for differentiation by JAX."""
        return self._hold_plans(ArrayFunction)

    @cached_property
    def _keeping(self) -> ArrayFunction:
        return self._hold_plans(ResidualFunction)

    def _hold_plans(self, make: type[ArrayFunction]) -> ArrayFunction:
        carrier, call = (
            self._carrier,
            self.call,
        )  # no reference to self, because JAX's caches hold the function
        made = make(lambda *arrays: tuple(carrier.bind(call, arrays)), self.overload.name())
        if call.is_transient:
            made.hold_plans()
        return made

    def _check_sizes(self, results: Outputs) -> Outputs:
        """Raises where results do not fit into memory. It runs in traces, and so once per signature."""
        for result in results:
            require_memory(self.overload.name(), result.shape, result.dtype, in_jit=True)
        return results

    def _make_recorder(self, wanted: Mask) -> Callable[..., Recorded]:
        derived = self.overload.record.is_derived

        def record(*arrays: Any) -> Recorded:
            if not derived or self.call.is_plain:
                return self.record_plain(wanted, arrays)
            return self._record_derived(wanted, arrays)

        return jax.jit(carry_errors(rename_function(record, self.overload.name())), inline=True)

    def _record_derived(self, wanted: Mask, arrays: Sequence[Any]) -> Recorded:
        structure = self.call.structure(arrays)
        function = self._keeping if self._keeps_residuals(arrays) else self.function
        recorded = function.recorder(wanted)(*arrays)
        self._check_sizes(recorded[1:])
        recorded[0].structure = structure
        self._describe(recorded[0])
        return recorded

    def _keeps_residuals(self, arrays: Sequence[Any]) -> bool:
        """Tells whether the backward reads what the call has computed, and does not compute it again.

        A jvp rule often computes value and slope together, so its backward reads them.
        """
        derivative = self.overload.record.derivative
        if not derivative.derive:
            return True
        return not derivative.recompute and is_costly(self.call.trace((), arrays))

    def record_plain(self, wanted: Mask, arrays: Sequence[Any]) -> Recorded:
        """Runs the call without a jit of its own, and plans its backward; returns the same as a recorder."""
        if self.overload.record.derivative.forward is not None:
            outputs, plan, extras = self.run_forward(wanted, arrays)
            self._describe(plan)
            return plan, *self._check_sizes(outputs), *extras
        if self.keeps_run(arrays):
            return self._record_run(wanted, arrays)
        if self._is_traced_whole(arrays):
            return self._record_derived(wanted, arrays)
        structure, outputs = self.run_plain(*arrays)
        return self.plan_after(structure, wanted, arrays, outputs)

    def keeps_run(self, arrays: Sequence[Any]) -> bool:
        """Tells whether JAX differentiates the kernel, or the jvp rule, as plain Python on these arrays."""
        record = self.overload.record
        if not record.is_derived or any_traced(arrays):
            return False
        return record.kind == "host" or not self._find_plain().compiled

    def _is_traced_whole(self, arrays: Sequence[Any]) -> bool:
        """Tells whether a derived kernel on these arrays is part of a program, whatever its op says."""
        is_derived = self.overload.record.derivative.derive
        return is_derived and not (self.call.captures or is_jit_disabled() or are_concrete(arrays))

    def _record_run(self, wanted: Mask, arrays: Sequence[Any]) -> Recorded:
        structures: list[Structure] = []
        run = bind_plain(self.call, structures.append)
        plan, *results = record_plain_run(self._find_plain(), run, wanted, tuple(arrays))
        plan.structure = structures[0]
        self._describe(plan)
        return plan, *results

    def pusher(self, present: Mask, carrier: Carrier) -> ArrayFunction:
        """Returns ``(*arrays, *outputs, *tangents) -> tangents of the outputs`` for a call that has run.

        Args:
            present: for each array, whether it has a tangent.
            carrier: the carrier of the op.
        """
        pusher = self.pushers.get(present)
        if pusher is None:
            call, record = self.call, self.overload.record
            count, given_count = len(present), sum(present)

            def push(*values: Any) -> Values:
                arrays, last = values[:count], len(values) - given_count
                if record.is_derived and call.is_plain:
                    return self._find_plain().jvp(present)(*arrays, *values[last:])
                tangents = spread(_cast(values[last:], arrays, present), present)
                return carrier.push(call, arrays, values[count:last], tangents)

            compiled = not (record.takes_tensors or record.is_plain)
            pusher = self.pushers[present] = ArrayFunction(push, record.name, compiled=compiled)
        return pusher

    def rule_runner(self, present: Mask) -> Callable[[Sequence[Any], Sequence[Any]], Pushed]:
        """Returns the jvp rule as a function of arrays and tangents, compiled if the kernel is.

        Args:
            present: for each array, whether it has a tangent.
        """
        call, record = self.call, self.overload.record
        key = present, record.kind == "array" and not call.is_plain
        runner = self._rules.get(key)
        if runner is None:

            def push(arrays: Sequence[Any], tangents: Sequence[Any]) -> Pushed:
                return push_call(call, (), present, arrays, _cast(tangents, arrays, present))

            runner = self._rules[key] = jax.jit(push) if key[1] else push
        return runner

    def _find_plain(self) -> ArrayFunction:
        # To find what a derivative reads, its kernel is traced. Under jax.disable_jit no kernel of a user is.
        record = self.overload.record
        is_disabled = record.is_custom and is_jit_disabled()
        is_traced = not (record.is_plain or record.is_eager or is_disabled or self.call.captures)
        if is_traced not in self._plain:
            self._plain[is_traced] = make_plain_function(self.call, compiled=is_traced)
        return self._plain[is_traced]

    def plan_after(self, structure: Structure, wanted: Mask, arrays: Any, outputs: Any) -> Recorded:
        """Plans the backward of a kernel that has run; returns the same as a recorder."""
        extras: Sequence[Any] = ()
        if self.overload.record.is_derived:
            plan: BackwardPlan = DerivedPlan(self._find_plain(), wanted, tuple(arrays), outputs)
            plan.structure = structure
        else:
            plan, extras = self.call.plan(wanted, arrays, outputs, structure=structure)
        self._describe(plan)
        return plan, *outputs, *extras

    def _describe(self, plan: BackwardPlan) -> None:
        """Sets what a plan knows of the op: names of inputs and outputs, and how its formula reads them."""
        inputs = map(self.layout.find_argument, range(plan.input_count))
        plan.names = (*inputs, *name_results(len(plan.outputs)))
        plan.selects = self.overload.record.derivative.selects


def _run_in_view(chain: Chain, run: AnyFunction, whole: Any, *rest: Any) -> Any:
    *others, starts = rest
    part = chain.get(whole, starts)
    made = run(part, *others)
    plan, result, *_ = made if isinstance(made, tuple) else (None, made)
    if result.shape != part.shape or result.dtype != part.dtype:
        return None
    new = chain.put(whole, result, starts)
    if plan is None:
        return new
    is_read = 0 in plan.sources or plan.extras is not None
    return new, part if is_read else None, made


def _cast(tangents: Sequence[Any], arrays: Sequence[Any], present: Mask) -> list[Any]:
    """Gives tangents the dtypes of the arrays that have one."""
    pairs = zip(tangents, pick_true(arrays, present), strict=True)
    return [tangent.astype(array.dtype) for tangent, array in pairs]


def _compile(run: Callable[..., Outputs], call: BoundCall) -> Callable[..., Outputs]:
    """Returns the compiled form of a call.

    A local op is bound in the trace itself: its formula may close over a tracer, which JAX does not move out
    of a jit that it transposes.
    """
    carrying = carry_errors(run)
    if not call.is_transient:
        return jax.jit(carrying, inline=True)
    make = cache(lambda: jax.jit(carrying, inline=True))
    return lambda *arrays: (run if any_traced(arrays) else make())(*arrays)


class _Recorders(dict[Mask, Callable[..., Recorded]]):
    """Recorders by the pattern of needed gradients; a missing one is made."""

    def __init__(self, make: Callable[[Mask], Callable[..., Recorded]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, wanted: Mask) -> Callable[..., Recorded]:
        return self.setdefault(wanted, self._make(wanted))


def name_results(count: int) -> tuple[str, ...]:
    """Names the results of an op as torch does: ``result``, or ``result0``, ``result1`` and so on."""
    return ("result",) if count == 1 else tuple(f"result{index}" for index in range(count))


class SpecializationCache:
    """The specializations of one record by key, bounded: the least recently used one is dropped first.

    Reading takes no lock. An OrderedDict would maintain the order, but comparing two keys runs Python code,
    during which another thread may change it.
    """

    __slots__ = ("_by_key", "_writing")

    def __init__(self) -> None:
        self._by_key: dict[Hashable, Specialization] = {}
        self._writing = threading.RLock()

    def __len__(self) -> int:
        return len(self._by_key)

    def get(self, key: Hashable) -> Specialization | None:
        """Returns the specialization of a key and counts the use."""
        specialization = self._by_key.get(key)
        if specialization is not None:
            specialization.last_use = next(_uses)
        return specialization

    def put(self, key: Hashable, specialization: Specialization) -> Specialization:
        """Enters a specialization unless another thread has just entered one; returns the entered one.

        If the cache is full, the least recently used one is dropped.
        """
        with self._writing:
            specialization.last_use = next(_uses)
            held = self._by_key.setdefault(key, specialization)
            if len(self._by_key) > CAPACITY:
                oldest = min(tuple(self._by_key.items()), key=lambda entry: entry[1].last_use)
                self._by_key.pop(oldest[0], None)
        return held
