"""The short cut: Python code generated for one overload, for the calls that need no care.

It serves compiled kernels whose arguments are all there, of the exact classes expected, in one world, and
whose specialization exists. Everything else goes to :class:`.dispatch.Dispatcher`, which also fills the
caches that this code reads. Positional and keyword-only arguments are bound by Python itself, others by
:mod:`.late_binding`. Parameters have the names of the schema, and every other name in the generated text
begins with two underscores.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from oplib.autograd.formula_node import NOBODY, record, save_residuals
from oplib.autograd.origins import note_origin
from oplib.config import config
from oplib.modes import ModeState, modes
from oplib.tensor import Storage, Tensor, box
from oplib.tensor.inference import InferenceStorage, InferenceTensor, mark_inference

from .derived_view import gives_views
from .dispatch import Dispatcher
from .fast_key import FastKey
from .late_binding import MISSING, LateBinding
from .record import Record
from .scalars import to_operand
from .schema import Argument


def make_fast_call(dispatcher: Dispatcher) -> Callable[..., Any]:
    """Returns the function that a call of the overload runs."""
    if not dispatcher.is_fast:
        return lambda *args, **kwargs: dispatcher.call(args, kwargs)
    source = FastSource(dispatcher.record)
    binding = LateBinding(dispatcher.schema.arguments, dispatcher.call)
    namespace: dict[str, Any] = {
        "__MISSING": MISSING,
        "__Storage": Storage,
        "__Tensor": Tensor,
        "__array_types": dispatcher.array_types,
        "__box": box,
        "__by_name": binding.by_name,
        "__config": config,
        "__find": dispatcher.fast_keys.get,
        "__modes": modes,
        "__new": object.__new__,
        "__nobody": NOBODY,
        "__note": note_origin,
        "__node_class": dispatcher.node_class,
        "__record": record,
        "__save": save_residuals,
        "__slow": binding.slow,
        "__to_operand": to_operand,
        **source.defaults,
        **source.key.names_used,
    }
    text, place = source.text(), f"<call of {dispatcher.name}>"
    binding.call = _define(text, place, namespace)
    if not source.is_view:  # views of ordinary tensors stay ordinary ones
        quiet = {**namespace, **_QUIET, "__slow": binding.complete}
        binding.make_quiet = lambda: _define(text.replace(_EXACTLY, _EITHER), place, quiet)
    return binding.call


def _define(text: str, place: str, namespace: dict[str, Any]) -> Callable[..., Any]:
    exec(compile(text, place, "exec"), namespace)
    return namespace["__call"]


def _box_inference(array: Any) -> Tensor:
    return mark_inference(box(array))


def _make_quiet_modes() -> SimpleNamespace:
    state = ModeState()
    state.grad_enabled = False
    return SimpleNamespace(state=state)


# The same text in inference mode, where nothing is recorded: what it makes are inference tensors.
_EXACTLY, _EITHER = ".__class__ is __Tensor", ".__class__ in __tensor_classes"
_QUIET: dict[str, Any] = {
    "__Storage": InferenceStorage,
    "__Tensor": InferenceTensor,
    "__box": _box_inference,
    "__modes": _make_quiet_modes(),
    "__tensor_classes": frozenset((Tensor, InferenceTensor)),
}


class FastSource:
    """The text of the generated function.

    Args:
        record: of the op.

    Attributes:
        defaults: values that the text refers to.
    """

    def __init__(self, record: Record) -> None:
        arguments = record.schema.arguments
        self.key = FastKey(record)
        self.is_single = len(record.schema.returns) == 1
        self.records = record.derivative.constant is None
        self.is_view = gives_views(record)
        self.pairs: list[tuple[str, Argument]] = list(zip(self.key.names, arguments, strict=True))
        self.defaults: dict[str, Any] = {
            f"__d{place}": argument.default_value
            for place, argument in enumerate(arguments)
            if argument.has_default_value()
        }
        self.operands = [(name, argument) for name, argument in self.pairs if argument.name in record.operand]

    def text(self) -> str:
        """Returns the whole function: one block for each way in which optional tensors are there or not."""
        blocks: list[str] = []
        for present in itertools.product((True, False), repeat=len(self.key.optionals)):
            absent = {name for name, there in zip(self.key.optionals, present, strict=True) if not there}
            tests = [f"{name} is {'None' if name in absent else 'not None'}" for name in self.key.optionals]
            blocks.append(f"    if {' and '.join(tests) or 'True'}:")
            blocks += [f"        {line}" for line in FastBlock(self, absent).lines()]
        return "\n".join(
            [
                f"def __call({self._parameters()}):",
                f"    if __named or __rest: return __by_name({self._given()}, __rest, __named)",
                *self._default_lines(),
                *[f"    __o_{name} = {_operand(name, argument)}" for name, argument in self.operands],
                *blocks,
                f"    return __slow({self._given()})",
            ]
        )

    def _parameters(self) -> str:
        """Parameters that take whatever is given, so that it is the schema that refuses."""
        positional = [f"{name}=__MISSING" for name, argument in self.pairs if not argument.kwarg_only]
        keyword_only = [
            f"{name}={self._default(place)}"
            for place, (name, argument) in enumerate(self.pairs)
            if argument.kwarg_only
        ]
        slash = ["/"] if positional else []
        return ", ".join([*positional, *slash, "*__rest", *keyword_only, "**__named"])

    def _default(self, place: int) -> str:
        return f"__d{place}" if f"__d{place}" in self.defaults else "__MISSING"

    def _default_lines(self) -> list[str]:
        return [
            f"    if {name} is __MISSING: {name} = __d{place}"
            for place, (name, argument) in enumerate(self.pairs)
            if argument.has_default_value() and not argument.kwarg_only
        ]

    def _given(self) -> str:
        """The arguments for the complete path."""
        positional = "".join(f"{name}, " for name, argument in self.pairs if not argument.kwarg_only)
        keyword_only = [f"{argument.name!r}: {name}" for name, argument in self.pairs if argument.kwarg_only]
        return f"({positional}), {{{', '.join(keyword_only)}}}"


class FastBlock:
    """What the generated function does where just these arguments are arrays.

    Args:
        source: the function that the block is part of.
        absent: the optional tensors that are None.
    """

    def __init__(self, source: FastSource, absent: set[str]) -> None:
        self.source = source
        self.absent = absent
        # What is an array in the call: its expression among Tensors, and the tensor behind it or None.
        self.flat: list[tuple[str, str | None]] = [
            (f"{name}._storage.array", name) if argument.has_tensor else (f"__o_{name}", None)
            for name, argument in source.pairs
            if (argument.has_tensor and name not in absent) or (name, argument) in source.operands
        ]
        self.tensors = [name for _, name in self.flat if name is not None]

    def lines(self) -> list[str]:
        """Returns the lines of the block; it falls through where the complete path is needed."""
        if self.source.is_view:  # of Tensors the complete path makes views
            arrays = self._all("{}.__class__ in __array_types")
            return [
                *self._find_lines(),
                f"if __s is not None and __config.compile_kernels and {arrays}:",
                f"    return {self._run_arrays()}",
            ]
        return [
            *self._find_lines(),
            "if __s is not None and __config.compile_kernels:",
            f"    if {self._all('{}.__class__ is __Tensor')}:",
            "        __m = __modes.state",
            "        if not __m.watchers:",
            *[f"            {line}" for line in self._record_lines() if self.source.records],
            f"            {self._run_line()}",
            f"    elif {self._all('{}.__class__ in __array_types')}:",
            f"        return {self._run_arrays()}",
        ]

    def _find_lines(self) -> list[str]:
        """What cannot stand in a key is for the complete path; where nothing is fixed, all calls have one."""
        key = self.source.key
        find = f"__s = __find({key.spell(self.absent)})"
        return [f"try: {find}", "except (TypeError, ValueError): __s = None"] if key.fixed else [find]

    def _all(self, test: str) -> str:
        operands = [f"__o_{name} is not None" for name, _ in self.source.operands]
        return " and ".join([*(test.format(name) for name in self.tensors), *operands])

    def _run_line(self) -> str:
        read = ", ".join(expression for expression, _ in self.flat)
        if self.source.is_single:
            return (
                f"__o = __new(__Storage); __o.array = __s.run_one({read}); __o.version = 0; "
                f"__t = __new(__Tensor); __t._storage = __o; return __t"
            )
        return f"return tuple([__box(__o) for __o in __s.run({read})[1]])"

    def _run_arrays(self) -> str:
        arrays = ", ".join(expression if name is None else name for expression, name in self.flat)
        return f"__s.run_one({arrays})" if self.source.is_single else f"__s.run({arrays})[1]"

    def _record_lines(self) -> list[str]:
        """The hot path of training: everything that ``record`` does, spelled out for this schema."""
        wanted = ", ".join("False" if name is None else f"__q_{name}" for _, name in self.flat)
        lines = self._record_one_lines() if self.source.is_single else self._record_several_lines()
        return [
            *[f"__q_{name} = {name}._requires_grad" for name in self.tensors],
            f"if ({' or '.join(f'__q_{name}' for name in self.tensors)}) and __m.grad_enabled:",
            f"    __w = ({wanted},)",
            "    __r = __s.recorders.get(__w) or __s.recorder(__w)",
            *[f"    {line}" for line in lines],
        ]

    def _record_several_lines(self) -> list[str]:
        read = ", ".join(expression for expression, _ in self.flat)
        boxes = ", ".join(name or "None" for _, name in self.flat)
        return [f"__a = ({read},)", f"return tuple(__record(__node_class, __r(*__a), ({boxes},), __a))"]

    def _record_one_lines(self) -> list[str]:
        places = range(len(self.flat))
        names = [name for _, name in self.flat]
        arrays = ", ".join(f"__a{place}" for place in places)
        storages = ", ".join("__nobody" if names[place] is None else f"__s{place}" for place in places)
        edges = ", ".join("None" if name is None else f"__e_{name}" for name in names)
        leaves = " or ".join(f"__e_{name}.__class__ is __Tensor" for name in self.tensors)
        versions = ", ".join("0" if names[place] is None else f"__s{place}.version" for place in places)
        written = " or ".join(f"__s{place}.version" for place in places if names[place] is not None)
        reads = [
            f"__a{place} = {expression}"
            if name is None
            else f"__s{place} = {name}._storage; __a{place} = __s{place}.array"
            for place, (expression, name) in enumerate(self.flat)
        ]
        return [
            *reads,
            f"__r = __r({arrays})",
            "__p = __r[0]",
            "__o = __new(__Storage); __o.array = __r[1]; __o.version = 0",
            "__t = __new(__Tensor); __t._storage = __o",
            "if not __p.differentiable[0]: return __t",
            "__n = __new(__node_class); __n.plan = __p; __n.input_metadata = __p.outputs",
            *[f"__e_{name} = {_edge(name)}" for name in self.tensors],
            f"if {leaves}: __n.inputs = ({edges},)",
            f"else: __n.edges = ({edges},)",
            "__n.sequence_nr = __m.sequence_nr; __m.sequence_nr += 1",
            "if __m.locations: __note(__n)",
            "__t._requires_grad = True; __t._grad_fn = __n",
            "if __p.sources:",
            "    if len(__r) == 2:",
            f"        __n.saved = __p.pick_both(({arrays}, __r[1], {storages}, __o))",
            f"        if {written}: __n.versions = __p.pick(({versions}, 0))",
            "    else:",
            "        __x = [__nobody] * (len(__r) - 2)",
            f"        __save(__n, __p, ({arrays}, *__r[1:]), ({storages}, __o, *__x))",
            "return __t",
        ]


def _edge(name: str) -> str:
    """The edge of an input, or the leaf itself: the node makes its edge when it is looked at."""
    edge = f"({name}._grad_fn, {name}._output_nr)"
    return f"None if not __q_{name} else {name} if {name}._grad_fn is None else {edge}"


def _operand(name: str, argument: Argument) -> str:
    """The array of a number; None where the complete path has to look at it."""
    kind = str(argument.type)
    classes = f"is {kind}" if kind in ("float", "int") else "in (float, int)"
    return f"__to_operand({name}) if {name}.__class__ {classes} else None"
