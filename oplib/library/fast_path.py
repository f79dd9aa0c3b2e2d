"""The short cut: Python code generated for one overload, for the calls that need no care.

It serves compiled kernels whose arguments are all there, of the exact classes expected, in one world, and whose
specialization exists. Everything else goes to :class:`.dispatch.Dispatcher`, which also fills the caches that
this code reads. Python itself binds the arguments: parameters and defaults are those of the schema.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oplib.autograd.formula_node import record, record_one
from oplib.config import config
from oplib.modes import modes
from oplib.tensor import Tensor, box

from .layout import freeze
from .record import Record
from .scalars import to_operand
from .schema import Argument

if TYPE_CHECKING:
    from .dispatch import Dispatcher

MISSING = object()
_EXACT = {"float": float, "int": int, "bool": bool, "str": str}


def make_fast_call(dispatcher: Dispatcher) -> Callable[..., Any]:
    """Returns the function that a call of the overload runs."""

    def slow(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return dispatcher.call(args, kwargs)

    if not is_eligible(dispatcher.record):
        return lambda *args, **kwargs: slow(args, kwargs)
    source = _Source(dispatcher)
    namespace: dict[str, Any] = {
        "MISSING": MISSING,
        "Tensor": Tensor,
        "box": box,
        "config": config,
        "freeze": freeze_softly,
        "modes": modes,
        "node_class": dispatcher.node_class,
        "record": record,
        "record_one": record_one,
        "slow": slow,
        "to_operand": to_operand,
        "array_types": dispatcher.array_types,
        "find": dispatcher.fast_keys.get,
        "recording": dispatcher.record.derivative.constant is None,
        **source.defaults,
    }
    exec(compile(source.text(), f"<call of {dispatcher.name}>", "exec"), namespace)  # noqa: S102  our own text
    return namespace["call"]


def is_eligible(record: Record) -> bool:
    """Whether the short cut can serve some calls of an op."""
    arguments = record.schema.arguments
    return (
        record.kind == "array"
        and record.compiled
        and record.kernels.keys() == {"default"}
        and not record.schema.is_mutable
        and any(argument.is_tensor for argument in arguments)
        and not any(argument.has_tensor and not argument.is_tensor for argument in arguments)
        and len(record.schema.returns) > 0
        and all(output.is_tensor for output in record.schema.returns)
    )


class _Source:
    """The text of the generated function.

    Attributes:
        defaults: values that the text refers to.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        record = dispatcher.record
        self.arguments = record.schema.arguments
        self.operand = record.operand
        self.is_single = len(record.schema.returns) == 1
        self.names = [
            argument.name if _is_plain_name(argument.name) else f"_p{place}"
            for place, argument in enumerate(self.arguments)
        ]
        self.defaults: dict[str, Any] = {
            f"_d{place}": argument.default_value
            for place, argument in enumerate(self.arguments)
            if argument.has_default_value()
        }
        self.tensors = [name for name, argument in self._pairs() if argument.is_tensor]
        self.fixed = [
            (name, argument)
            for name, argument in self._pairs()
            if not argument.is_tensor and argument.name not in self.operand
        ]

    def _pairs(self) -> list[tuple[str, Argument]]:
        return list(zip(self.names, self.arguments, strict=True))

    def text(self) -> str:
        """Returns the whole function."""
        one = self.is_single
        ran = "box({run})" if one else "tuple([box(o) for o in {run}[1]])"
        run = "s.run_one(*a)" if one else "s.run(*a)"
        recorded = "record_one" if one else "record"
        result = f"{recorded}(node_class, r(*a), ({self._boxes()},), a)"
        lines = [
            f"def call({self._parameters()}):",
            f"    if {self._odd()}: return slow({self._given()})",
            *self._operand_lines(),
            f"    s = find({self._key()})",
            "    if s is not None and config.compile_kernels:",
            f"        if {self._all('{}.__class__ is Tensor')}:",
            "            if modes.tracing is None:",
            f"                a = ({self._read()},)",
            f"                w = ({self._wanted()},)",
            "                if True in w and recording and modes.grad_enabled:",
            "                    r = s.recorders.get(w) or s.recorder(w)",
            f"                    return {result if one else f'tuple({result})'}",
            f"                return {ran.format(run=run)}",
            f"        elif {self._all('{}.__class__ in array_types')}:",
            f"            return {self._run_arrays()}",
            f"    return slow({self._given()})",
        ]
        return "\n".join(lines)

    def _parameters(self) -> str:
        positional = [self._parameter(place) for place, argument in enumerate(self.arguments) if not argument.kwarg_only]
        keyword_only = [self._parameter(place) for place, argument in enumerate(self.arguments) if argument.kwarg_only]
        return ", ".join([*positional, "*_rest", *keyword_only, "**_kw"])

    def _parameter(self, place: int) -> str:
        default = f"_d{place}" if f"_d{place}" in self.defaults else "MISSING"
        return f"{self.names[place]}={default}"

    def _odd(self) -> str:
        required = [f"{name} is MISSING" for name, argument in self._pairs() if not argument.has_default_value()]
        return " or ".join(["_rest", "_kw", *required])

    def _given(self) -> str:
        """The arguments as they came, for the complete path."""
        positional = [name for name, argument in self._pairs() if not argument.kwarg_only]
        pairs = ", ".join(f"({argument.name!r}, {name})" for name, argument in self._pairs())
        everything = f"{{k: v for k, v in ({pairs},) if v is not MISSING}}"
        keywords = ", ".join(f"({argument.name!r}, {name})" for name, argument in self._pairs() if argument.kwarg_only)
        only = f"{{k: v for k, v in ({keywords}{',' if keywords else ''}) if v is not MISSING}}"
        return (
            f"*((({', '.join(positional)}, *_rest), {{**{only}, **_kw}}) if _rest else ((), {{**{everything}, **_kw}}))"
        )

    def _key(self) -> str:
        parts = [_key_part(name, argument) for name, argument in self.fixed]
        return f"({', '.join(parts)},)" if parts else "()"

    def _operand_lines(self) -> list[str]:
        return [
            f"    {name}_o = to_operand({name}) if {_operand_test(name, argument)} else None"
            for name, argument in self._pairs()
            if argument.name in self.operand
        ]

    def _all(self, test: str) -> str:
        operands = [f"{name}_o is not None" for name, argument in self._pairs() if argument.name in self.operand]
        return " and ".join([*(test.format(name) for name in self.tensors), *operands])

    def _read(self) -> str:
        return ", ".join(
            f"{name}._storage.array" if argument.is_tensor else f"{name}_o"
            for name, argument in self._pairs()
            if argument.is_tensor or argument.name in self.operand
        )

    def _wanted(self) -> str:
        return ", ".join(
            f"{name}._requires_grad" if argument.is_tensor else "False"
            for name, argument in self._pairs()
            if argument.is_tensor or argument.name in self.operand
        )

    def _boxes(self) -> str:
        """The Tensor behind each array, None for an operand."""
        return ", ".join(
            name if argument.is_tensor else "None"
            for name, argument in self._pairs()
            if argument.is_tensor or argument.name in self.operand
        )

    def _run_arrays(self) -> str:
        arrays = ", ".join(
            name if argument.is_tensor else f"{name}_o"
            for name, argument in self._pairs()
            if argument.is_tensor or argument.name in self.operand
        )
        return f"s.run_one({arrays})" if self.is_single else f"s.run({arrays})[1]"


def _is_plain_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_") and name not in _TAKEN


_TAKEN = frozenset({"a", "w", "r", "s", "o", "k", "v", "slow", "box", "find", "record", "modes", "config", "freeze",
                    "recording", "node_class", "to_operand", "array_types", "record_one", "Tensor", "MISSING"})  # fmt: skip


def _operand_test(name: str, argument: Argument) -> str:
    return f"{name}.__class__ is float" if str(argument.type) == "float" else f"{name}.__class__ in (float, int)"


def _key_part(name: str, argument: Argument) -> str:
    """Class and value; floats that equal another one, and containers, go the long way."""
    kind = str(argument.type).rstrip("?")
    if kind in ("int", "bool", "str"):
        return f"{name}.__class__, {name}"
    if kind == "float":
        return f"{name}.__class__, {name} if {name} else freeze({name})"
    return f"freeze({name})"


def freeze_softly(value: Any) -> object:
    """As ``freeze``, but what cannot be hashed gives a key that nothing has; the complete path will explain."""
    try:
        return freeze(value)
    except TypeError:
        return object()


def fast_key(record: Record, values: list[Any]) -> tuple[Any, ...]:
    """The key under which the generated code looks for a specialization, for the values as the user gave them."""
    parts: list[Any] = []
    for argument, value in zip(record.schema.arguments, values, strict=True):
        if argument.is_tensor or argument.name in record.operand:
            continue
        kind = str(argument.type).rstrip("?")
        if kind in ("int", "bool", "str"):
            parts += [value.__class__, value]
        elif kind == "float":
            parts += [value.__class__, value if value else freeze_softly(value)]
        else:
            parts.append(freeze_softly(value))
    return tuple(parts)

