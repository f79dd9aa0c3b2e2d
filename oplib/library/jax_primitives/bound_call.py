"""One op with fixed static arguments, as a function of its arrays.

A :class:`BoundCall` is the parameter of the carrier's primitives: it is the form of a registered op below the
tape and inside every transformation of JAX.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import jax
from jax.core import eval_context

from oplib.autograd.array_functions.array_function import Mask, WeakRepetition, shape_of
from oplib.autograd.array_functions.array_types import find_varying
from oplib.autograd.array_functions.compilation import is_uncompiled, rename_function
from oplib.autograd.array_functions.concreteness import CONCRETIZATION_ERRORS, VALUE_ERRORS
from oplib.autograd.array_functions.width import x64
from oplib.errors import ReadValueError
from oplib.library.arguments.layout import Layout
from oplib.library.arguments.structure import Structure, require_same_structure
from oplib.library.batching_and_sharding.levels import (
    Level,
    Levels,
    map_residuals,
    take_examples,
    to_jax_array,
)
from oplib.library.batching_and_sharding.partition import run_derivable, run_in_parts
from oplib.library.batching_and_sharding.paths import find_paths
from oplib.library.batching_and_sharding.varying import fit_varying, is_inside_shard_map
from oplib.library.derivatives.formula import FormulaPlan
from oplib.library.derivatives.gradient_types import GradientTypes
from oplib.library.derivatives.setup import Forwarded, plan_formula, run_forward
from oplib.library.kernels.array_kernel import type_results
from oplib.library.kernels.fake_kernel import compare_with_fake, run_fake_kernel
from oplib.library.kernels.result_types import run_typed
from oplib.library.kernels.running import run_kernel, trace_kernel
from oplib.library.kernels.tracing import any_traced, trace_to_jaxpr
from oplib.library.op_objects.overload import OpOverload
from oplib.library.op_records.record import Record
from oplib.library.op_records.sites import find_definition
from oplib.modes import modes
from oplib.protocols import AnyFunction, Values
from oplib.tensor.storage.failed_reads import forget_read

from .call_code import CallCode, Results
from .vmap_rule import Batched, check_batched, run_vmap_rule

Shapes = Sequence[jax.ShapeDtypeStruct]


def _find_nothing() -> None:
    """Stands for the code of a call that has none yet."""


class BoundCall:
    """An overload with a layout.

    Two calls are equal if op, layout and record version are equal; JAX uses this as the key of its caches.
    The kernels are looked up in the overload's record when the call is traced, so JAX's caches keep no kernel
    alive.

    Attributes:
        overload: the op.
        layout: the static arguments and the positions of the arrays.
        version: the version of the record for which the call was made.
        kernel_slots: the slots that had a kernel then.
        captures: the kernel of a local op closes over tracers, or a Ref is among the arguments.
        reads_values: a kernel of plain Python on Tensors has read values while it was traced.
        checked: the signatures for which a formula or kernel is known to be linear.
        bind: binds the primitive of the op with a call and arrays.
    """

    __slots__ = (
        "_code",
        "_hash",
        "bind",
        "captures",
        "checked",
        "kernel_slots",
        "layout",
        "overload",
        "reads_values",
        "version",
    )

    def __init__(
        self, overload: OpOverload, layout: Layout, bind: Callable[..., Sequence[Any]] | None = None
    ) -> None:
        self.overload = overload
        self.bind = bind
        self.layout = layout
        self.version = overload.record.version
        self.kernel_slots = tuple(overload.record.kernels)
        self.checked: set[Any] = set()
        self._code: Callable[[], CallCode | None] = _find_nothing
        self._hash = hash((overload.name(), layout, self.version))
        self.captures = bool(layout.refs)
        self.reads_values = False

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, BoundCall)
            and self.version == other.version
            and self.overload is other.overload
            and self.layout == other.layout
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return self.overload.name()

    @property
    def code(self) -> CallCode:
        """The traced and compiled forms of the call.

        JAX's caches hold the call of a local op as long as one of its traces lives. So it refers to them
        weakly, and its specialization holds them.
        """
        code = self._code()
        if code is None:

            def run(*arrays: Any) -> Results:  # a function, because JAX's caches hold a method for ever
                return self._run(*arrays)

            rename_function(run, self.record.name)
            code = CallCode(run, is_transient=self.is_transient)
            self._code = weakref.ref(code) if self.is_transient else lambda: code
        return code

    @property
    def life(self) -> dict[str, Any]:
        """A parameter of the primitives of a local op; none for any other op.

        JAX's caches of primitives refer weakly to a parameter that is a jaxpr, and strongly to any other.
        They drop an entry when the jaxpr is gone. So an entry ends with the op and the traces with it.
        """
        return {"life": self.code.life} if self.is_transient else {}

    @property
    def is_transient(self) -> bool:
        """Whether the op is local, or a function among the arguments is: no cache may hold the call."""
        return self.overload.is_local or self.layout.is_transient

    @property
    def record(self) -> Record:
        """The record in force."""
        return self.overload.record

    @property
    def is_plain(self) -> bool:
        """Whether kernel and rules run as plain Python wherever their values are known."""
        return self.captures or self.reads_values or self.record.is_plain or is_uncompiled()

    @property
    def applies_itself(self) -> bool:
        """Whether the call holds its compiled executions: JAX's cache would keep a local op alive."""
        return self.is_transient and self.record.sole_kernel is not None and self.record.sharding is None

    def apply(self, key: Any, run: AnyFunction) -> AnyFunction:
        """Returns the compiled form of a function of this call, made once for each key.

        Args:
            key: all that ``run`` closes over; a traced kernel is that of one signature.
            run: the function of arrays.
        """
        compiled = self.code.applied.get(key)
        if compiled is None:

            def apply(*arrays: Any) -> Any:
                return run(*arrays)

            compiled = self.code.applied[key] = jax.jit(rename_function(apply, self.record.name))
        return compiled

    def run_plain(self, levels: Levels, arrays: Sequence[Any]) -> Results:
        """Runs the kernel as plain Python on arrays whose values are known, mapped over levels of vmap."""
        mapped = self.map(levels, self._run_now if self.record.kind == "array" or not levels else None)
        try:
            return mapped(*arrays)
        except CONCRETIZATION_ERRORS as error:
            if not levels:
                raise
            raise ReadValueError(
                f"{self.record.name}: the kernel reads a value under vmap, where each example has its own. "
                f"{str(error).splitlines()[0]} Choose by jnp.where, or register a rule for the batch with "
                "register_vmap."
            ) from error

    def run_in_place(self, arrays: Sequence[Any]) -> Results:
        """Runs the kernel as plain Python in the current trace, whose tracers it may close over."""
        return self._type(lambda *values: self.run_plain((), values), arrays)

    def _run_now(self, *arrays: Any) -> Results:
        structure, flat = run_kernel(self.record, self.layout, arrays)
        return structure, tuple(flat)

    def _type(self, run: Callable[..., Results], arrays: Sequence[Any]) -> Results:
        return run_typed(run, self.record, self.layout, arrays) if is_inside_shard_map() else run(*arrays)

    def run(self, *arrays: Any) -> Results:
        """Runs the kernel on arrays or tracers; one trace serves shapes, lowering and mapping."""
        return self.code.single(*arrays)

    def _run(self, *arrays: Any) -> Results:
        return self._type(self._trace_kernel, arrays)

    def _trace_kernel(self, *arrays: Any) -> Results:
        record = self.record
        structure, flat = trace_kernel(record, self.layout, arrays)
        if record.fake is not None and record.kind != "host":  # a host callback compares its own results
            compare_with_fake(record, self.layout, arrays, (structure, flat))
        return structure, type_results(record, self.layout, arrays, flat)

    def trace(
        self, levels: Levels, arrays: Sequence[Any], *, in_parts: bool = True, derivable: bool = False
    ) -> Any:
        """Returns the closed jaxpr of the call, mapped over levels of vmap; once per levels and signature.

        Args:
            levels: the levels of vmap.
            arrays: the arrays of the call, or their shapes.
            in_parts: the sharding rule is executed, instead of left to XLA.
            derivable: JAX differentiates the result; the rule is executed only if this is necessary.
        """
        has_parts = self.record.sharding is not None
        key = levels, has_parts and in_parts, has_parts and derivable
        function = self.code.levelled.get(key)
        if function is None and key == ((), False, False):
            function = self.code.single
        elif function is None:
            run = self._run_whole(levels)
            if has_parts and (in_parts or derivable):
                run = partial(run_derivable if derivable else run_in_parts, self, levels)
            function = self.code.levelled[key] = jax.jit(lambda *values: list(run(values)))
        return trace_to_jaxpr(function, arrays, op=self.overload.name(), part="kernel")

    def _run_whole(self, levels: Levels) -> Callable[[Sequence[Any]], Sequence[Any]]:
        mapped = self.map(levels)
        return lambda values: mapped(*values)[1]

    def map(self, levels: Levels, run: Callable[..., Results] | None = None) -> Callable[..., Results]:
        """Maps the kernel over levels, the innermost first; a batching rule replaces that map."""
        run = run or self.run
        if levels and self.record.vmap is not None:
            run, levels = partial(self._run_batched, levels[0]), levels[1:]
        for level in levels:
            run = level.map(run, level.axes)
        return run

    def _run_batched(self, level: Level, *arrays: Any) -> Results:
        """Runs the registered batching rule instead of the kernel; one trace per level and signature."""
        structure, flat, _ = self._find_batched(level)(*arrays)
        return structure, tuple(flat)

    def find_shared(self, level: Level, arrays: Sequence[Any]) -> Mask:
        """Tells for each result whether the batching rule gives one for the whole batch."""
        return jax.eval_shape(self._find_batched(level), *arrays)[2].flags

    def _find_batched(self, level: Level) -> Callable[..., Batched]:
        batched = self.code.batched.get(level)
        if batched is None:

            def run(*values: Any) -> Batched:
                batched = run_vmap_rule(self.record, self.layout, level, values)
                example = take_examples((level,), values)
                check_batched(self.record, batched, self.find_due(example))
                structure, flat, shared = batched
                typed = type_results(self.record, self.layout, values, flat)
                return structure, self.fit(typed, (level,), values, "batching rule"), shared

            batched = self.code.batched[level] = jax.jit(run, inline=True)
        return batched

    def plan(
        self,
        wanted: Mask,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        *,
        levels: Levels = (),
        structure: Structure | None = None,
    ) -> tuple[FormulaPlan, list[Any]]:
        """Plans the backward at a point at which the kernel has run.

        Args:
            wanted: for each input, whether its gradient is needed.
            inputs: the arrays of the call, batched according to the levels.
            outputs: the results of the kernel, batched at all levels.
            levels: the levels of vmap.
            structure: the structure of the outputs, if it is known.

        Returns:
            The plan for one example, and the intermediates that the setup saved, batched at all levels.
        """
        if self.record.derivative.forward is not None:
            plan, _, extras = self.run_forward(levels, wanted, inputs)
            return plan, list(extras)
        code = self.code  # holds the plan until it is returned
        planner = code.planners.get((levels, wanted))
        if planner is None:
            planner = code.planners[levels, wanted] = self._make_planner(levels, wanted)
        return planner(structure, tuple(inputs), tuple(outputs))

    def _make_planner(self, levels: Levels, wanted: Mask) -> Callable[..., tuple[FormulaPlan, list[Any]]]:
        def plan(structure: Structure | None, inputs: Any, outputs: Any) -> tuple[FormulaPlan, list[Any]]:
            def plan_one(values: Any, results: Any) -> tuple[FormulaPlan, list[Any]]:
                plan, extras = plan_formula(
                    self.overload,
                    self.layout,
                    structure or self.structure(values),
                    wanted=wanted,
                    inputs=values,
                    outputs=results,
                    is_plain=self.is_plain,
                )
                return self._hold(plan, values, results), extras

            return map_residuals(plan_one, levels)(inputs, outputs)

        compile_plan = cache(lambda: jax.jit(plan, inline=True))
        known: dict[Any, FormulaPlan | None] = {}

        def choose(structure: Structure | None, inputs: Any, outputs: Any) -> tuple[FormulaPlan, list[Any]]:
            if self.is_plain:
                return plan(structure, inputs, outputs)
            inputs, outputs = tuple(map(to_jax_array, inputs)), tuple(map(to_jax_array, outputs))
            signature = x64.value, modes.autocast, *map(jax.typeof, [*inputs, *outputs])
            if signature not in known:
                # A transient call is often the only one, so nothing is compiled for it.
                is_single = self.is_transient or any_traced([*inputs, *outputs])
                made, extras = (plan if is_single else compile_plan())(structure, inputs, outputs)
                known[signature] = None if extras else made  # a setup that computes nothing runs once
                return made, extras
            kept = known[signature]
            return compile_plan()(structure, inputs, outputs) if kept is None else (kept, [])

        return choose

    def _hold(self, plan: FormulaPlan, inputs: Sequence[Any], outputs: Sequence[Any]) -> FormulaPlan:
        """Completes a plan. The compiled forms of a local op hold it, instead of JAX's caches of trees."""
        if self.bind is not None and self.record.derivative.linear:
            plan.apply = partial(self.bind, self)
        if is_inside_shard_map():
            plan.types = self._type_gradients(inputs, outputs)
        if self.is_transient and not self.is_plain:
            plan.repetition = WeakRepetition(plan)
            self.code.plans.append(plan)
        return plan

    def _type_gradients(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> GradientTypes:
        types = tuple(map(jax.typeof, inputs))
        closed = self.code.single.trace(*inputs).jaxpr
        return GradientTypes(
            self.overload.name(),
            tuple(map(self.layout.find_argument, range(len(inputs)))),
            types,
            tuple(map(jax.typeof, outputs)),
            find_paths(closed, len(inputs), list(map(find_varying, types))),
        )

    def run_forward(self, levels: Levels, wanted: Mask, arrays: Sequence[Any], due: Shapes = ()) -> Forwarded:
        """Runs the registered forward instead of the kernel.

        Args:
            levels: the levels of vmap.
            wanted: for each input, whether its gradient is needed.
            arrays: the arrays of the call, batched according to the levels.
            due: the shapes of the kernel's results, if there are no levels.

        Returns:
            The plan for one example; the results and the intermediates, batched at all levels.
        """
        code = self.code  # holds the plan until it is returned
        forward = code.forwards.get((levels, wanted, due))
        if forward is None:
            run = partial(run_forward, self.overload, self.layout, wanted=wanted, due=due)
            forward = code.forwards[levels, wanted, due] = self._map_forward(run, levels)
        plan, outputs, extras = forward(*arrays)
        return plan, self.fit(outputs, levels, arrays, "forward"), extras

    def fit(self, outputs: Values, levels: Levels, arrays: Sequence[Any], part: str) -> Values:
        """Gives what runs instead of the kernel the varying mesh axes of the kernel's results."""
        if not is_inside_shard_map():
            return outputs
        types = self.code.single.trace(*take_examples(levels, arrays)).jaxpr.out_avals
        return tuple(fit_varying(outputs, types, op=self.overload.name(), part=part))

    def _map_forward(self, run: Callable[..., Forwarded], levels: Levels) -> Callable[..., Forwarded]:
        def mapped(*arrays: Any) -> Forwarded:
            def function(*values: Any) -> Forwarded:  # vmap takes flat arrays
                plan, outputs, extras = run(values)
                if self.record.schema.has_result_tree and not self.is_plain:
                    part = f"forward at {find_definition(self.record.derivative.forward)}"
                    require_same_structure(str(self), part, plan.structure, self.structure(values))
                return self._hold(plan, values, outputs), outputs, extras

            for level in levels:
                function = level.map(function, level.axes)
            return function(*arrays)

        compile_forward = cache(lambda: jax.jit(mapped, inline=True))

        def choose(*arrays: Any) -> Forwarded:
            if not self.is_plain:
                return compile_forward()(*arrays)
            if self.captures or any_traced(arrays):
                return mapped(*arrays)
            with eval_context():  # JAX never forgets a compiled call inside of a trace of a rule
                return mapped(*arrays)

        return choose

    def structure(self, arrays: Sequence[Any]) -> Structure:
        """Returns the structure of the results by tracing the kernel; fake kernels do not count."""
        # On a mesh, the sharding of a whole kernel's results may be unknown.
        if self.record.sharding is not None:
            arrays = list(map(shape_of, arrays))
        return jax.eval_shape(self.code.single, *arrays)[0]

    def shapes(self, arrays: Sequence[Any]) -> Results:
        """Returns structure and shapes of the results, by the fake kernel if there is one."""
        if self.record.sharding is not None:
            arrays = list(map(shape_of, arrays))
        if self.record.fake is None:
            return jax.eval_shape(self.code.single, *arrays)
        return jax.eval_shape(lambda *values: run_fake_kernel(self.record, self.layout, values), *arrays)

    def find_due(self, arrays: Sequence[Any]) -> tuple[Structure | None, Shapes]:
        """Returns structure and shapes that a rule's results must have; none if no kernel is to be traced."""
        if is_uncompiled() or self.captures or self.reads_values:
            return None, ()
        try:
            return self.shapes(arrays)
        except VALUE_ERRORS as error:
            forget_read(error)
            self.reads_values = True
            return None, ()
