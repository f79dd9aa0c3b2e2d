"""The description of an op: for each rule, whether it is registered, derived or missing, and what to do."""

from __future__ import annotations

import enum
import html
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from oplib.errors import AutogradError, MissingRuleError
from oplib.frozen import frozen
from oplib.library.op_records.platforms import list_platforms, list_slots
from oplib.library.op_records.record import Record
from oplib.library.op_records.sites import find_definition, find_doc
from oplib.tracebacks import is_own

RULES = (
    "kernel cpu", "kernel gpu", "kernel tpu", "fake", "backward", "forward mode", "vmap", "sharding",
    "autocast",
)  # fmt: skip


class Status(enum.Enum):
    """How an op comes to a rule.

    Attributes:
        registered: the author of the op has registered the rule.
        derived: oplib, JAX or XLA makes the rule from other rules.
        host: the op works there, through a call of the host.
        missing: there is no rule; a call that needs it raises.
        refused: the rule was asked for, and cannot be derived.
    """

    registered = "●"
    derived = "○"
    host = "◌"
    missing = "–"
    refused = "✗"


@frozen
class RuleFact:
    """One rule of an op.

    Attributes:
        rule: one of ``RULES``.
        status: how the op comes to it.
        text: the source of the rule, or the reason why there is none.
        where: ``file:line`` of a function that a user registered; None for other rules.
        advice: the call that registers the rule; None if nothing is to be done.
    """

    rule: str
    status: Status
    text: str
    where: str | None = None
    advice: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Returns the fields, with the status by name."""
        return {**asdict(self), "status": self.status.name}


@frozen
class OpDescription:
    """The description of one overload; it prints as a table, and displays as one in notebooks.

    Attributes:
        name: the qualified name.
        schema: the schema, as text.
        summary: the first line of the kernel's docstring; may be empty.
        kind: how the kernels run, in words.
        where: ``file:line`` of the registration; "built in" for ops of oplib.
        rules: one fact for each of ``RULES``, in that order.
    """

    name: str
    schema: str
    summary: str
    kind: str
    where: str
    rules: tuple[RuleFact, ...]

    def __getitem__(self, rule: str) -> RuleFact:
        return next(fact for fact in self.rules if fact.rule == rule)

    def to_json(self) -> dict[str, Any]:
        """Returns the description as dictionaries, lists and texts."""
        return {**asdict(self), "rules": [fact.to_json() for fact in self.rules]}

    def __str__(self) -> str:
        head = [self.schema, "  ·  ".join(filter(None, (self.summary, self.kind, name_site(self.where)))), ""]
        return "\n".join([*head, *self.list_rules(), *self.list_advice()])

    def list_rules(self) -> list[str]:
        """Returns one line for each rule: its status, and its source or the reason why there is none."""
        return [f"  {fact.rule:<13} {fact.status.value}  {_tell(fact)}" for fact in self.rules]

    def list_advice(self) -> list[str]:
        """Returns what to register next, as lines; empty if every rule is there."""
        due = [fact for fact in self.rules if fact.advice is not None]
        return [f"\nTo get {fact.rule}, register it:\n    {fact.advice}" for fact in due]

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{fact.rule}</td><td title='{fact.status.name}'>{fact.status.value}</td>"
            f"<td style='text-align:left'>{html.escape(_tell(fact))}</td></tr>"
            for fact in self.rules
        )
        advice = "".join(f"<pre>{html.escape(line.strip())}</pre>" for line in self.list_advice())
        return (
            f"<code>{html.escape(self.schema)}</code><br>{html.escape(self.summary)} "
            f"<small>{html.escape(self.kind)}, {html.escape(name_site(self.where))}</small>"
            f"<table>{rows}</table>{advice}"
        )


def _tell(fact: RuleFact) -> str:
    return fact.text if fact.where is None else f"{fact.text}, at {name_site(fact.where)}"


def name_site(where: str) -> str:
    """Returns ``file:line`` without the folder of the file."""
    return Path(where).name


def describe_record(record: Record, refused: str | None = None) -> OpDescription:
    """Returns the description of an op by its record; it runs nothing.

    Args:
        record: of the op.
        refused: the reason why JAX could not derive forward mode for some arguments; None if it could, or if
            that was not tried.
    """
    said = next(filter(None, map(find_doc, record.kernels.values())), None)
    rules = (
        *(_describe_kernel(record, family) for family in ("cpu", "gpu", "tpu")),
        _describe_fake(record),
        _describe_backward(record),
        _describe_forward_mode(record) if refused is None else _refuse_forward_mode(record, refused),
        _describe_vmap(record),
        _describe_sharding(record),
        _describe_autocast(record),
    )
    return OpDescription(
        name=record.name,
        schema=str(record.schema),
        summary="" if said is None else inspect.cleandoc(said).splitlines()[0],
        kind=_name_kind(record),
        where="built in" if record.is_built_in else record.where,
        rules=rules,
    )


def _name_kind(record: Record) -> str:
    if record.is_plain:
        return "array kernel, not compiled"
    kinds = {"array": "array kernel, compiled", "host": "kernel on the host", "tensor": "kernel on Tensors"}
    return kinds.get(record.kind, "composite kernel on Tensors")


def _register(record: Record, name: str, *arguments: str) -> str:
    """Returns the call that registers a rule of an op by name."""
    return f"oplib.library.{name}({', '.join([repr(record.name), *arguments])})"


def _registered(rule: str, function: Any, by: str) -> RuleFact:
    line = find_definition(function) if callable(function) else "?"
    return RuleFact(rule, Status.registered, by, None if line == "?" or is_own[line] else line)


def _describe_kernel(record: Record, family: str) -> RuleFact:
    rule = f"kernel {family}"
    slots: Iterable[str] = dict.fromkeys(
        slot for platform in list_platforms(family) for slot in list_slots(platform)
    )
    slot = next((slot for slot in slots if slot in record.kernels), None)
    if record.kind == "host" and family != "cpu" and slot in (None, "default"):
        slot = next((slot for slot in ("cpu", "default") if slot in record.kernels), None)
        if slot is not None:
            return RuleFact(rule, Status.host, "arrays travel to the host and back")
    if slot is None:
        advice = _register(record, "register_kernel", repr(family), "kernel")
        return RuleFact(rule, Status.missing, f"no kernel for {family}", advice=advice)
    if slot != "default" or (record.kind == "host" and family == "cpu"):
        return _registered(rule, record.kernels[slot], "numpy" if record.kind == "host" else "registered")
    ways = {"array": "XLA compiles the default kernel", "host": "the default kernel"}
    return RuleFact(rule, Status.derived, ways.get(record.kind, "the default kernel, on Tensors"))


def _describe_fake(record: Record) -> RuleFact:
    if record.fake is not None:
        return _registered("fake", record.fake, "register_fake")
    if record.kind != "host":
        return RuleFact("fake", Status.derived, "shapes come from a trace of the kernel")
    advice = _register(record, "register_fake", "shape_rule")
    return RuleFact("fake", Status.missing, "a trace needs the shapes of the results", advice=advice)


def _describe_backward(record: Record) -> RuleFact:
    rule, derivative = "backward", record.derivative
    advice = _register(record, "register_autograd", "backward", "setup_context=setup_context")
    if derivative.backward is not None:
        return _registered(rule, derivative.backward, "register_autograd")
    if derivative.constant is not None:
        return RuleFact(rule, Status.derived, f"zero: {derivative.constant}")
    if derivative.missing is not None:
        return RuleFact(rule, Status.missing, derivative.missing)
    if derivative.derive:
        return RuleFact(rule, Status.derived, "JAX differentiates the kernel")
    if record.kind == "composite":
        return RuleFact(rule, Status.derived, "by the ops that the kernel calls")
    if record.is_derived:
        return RuleFact(rule, Status.derived, "the jvp rule, transposed")
    if record.schema.is_mutable:
        return RuleFact(rule, Status.missing, "the op writes an argument")
    return RuleFact(rule, Status.missing, "no formula is registered", advice=advice)


def _describe_forward_mode(record: Record) -> RuleFact:
    rule, derivative = "forward mode", record.derivative
    if record.jvp is not None:
        return _registered(rule, record.jvp.function, "register_jvp")
    if derivative.constant is not None:
        return RuleFact(rule, Status.derived, f"zero: {derivative.constant}")
    if record.is_transparent:
        return RuleFact(rule, Status.derived, "JAX differentiates the kernel")
    if derivative.backward is not None and derivative.nonlinear:
        return _refuse_forward_mode(record, "the backward formula is declared nonlinear")
    if derivative.linear:
        return RuleFact(rule, Status.derived, "the op is linear: it is applied to the tangents")
    if derivative.backward is not None:
        return RuleFact(rule, Status.derived, "the backward formula, transposed")
    return RuleFact(rule, Status.missing, "no jvp rule, and no formula to derive one from")


def _refuse_forward_mode(record: Record, reason: str) -> RuleFact:
    advice = _register(record, "register_jvp", "rule")
    return RuleFact("forward mode", Status.refused, reason, advice=advice)


def find_forward_refusal(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str | None:
    """Returns why an op has no forward mode at these arguments; None if it has one.

    The derivative is lowered, and nothing runs.

    Args:
        function: the op as a function of arrays.
        args: its arguments; the tangents are those of the floating and complex arrays among them.
        kwargs: its keyword arguments.
    """
    arrays = [index for index, value in enumerate(args) if _is_inexact(value)]
    values = [args[index] for index in arrays]

    def call(*varied: Any) -> Any:
        changed = dict(zip(arrays, varied, strict=True))
        return function(*[changed.get(index, value) for index, value in enumerate(args)], **kwargs)

    try:
        jax.jit(lambda *primals: jax.jvp(call, primals, primals)).lower(*values)
    except (AutogradError, MissingRuleError) as error:
        return str(error).partition(": ")[2].partition(" Register a rule")[0]
    return None


def _is_inexact(value: Any) -> bool:
    return isinstance(value, (jax.Array, np.ndarray)) and bool(jnp.issubdtype(value.dtype, jnp.inexact))


def _describe_vmap(record: Record) -> RuleFact:
    if record.vmap is not None:
        return _registered("vmap", record.vmap, "register_vmap")
    if record.kind == "host":
        return RuleFact("vmap", Status.host, "the kernel runs once for each example")
    return RuleFact("vmap", Status.derived, "JAX maps kernel and rules")


def _describe_sharding(record: Record) -> RuleFact:
    if record.sharding is not None:
        return _registered("sharding", record.sharding, f"register_sharding: {record.sharding}")
    if record.kind == "host":
        return RuleFact("sharding", Status.host, "arrays are gathered for the kernel")
    return RuleFact("sharding", Status.derived, "XLA partitions the kernel where it can look into it")


def _describe_autocast(record: Record) -> RuleFact:
    if not record.autocast:
        return RuleFact("autocast", Status.missing, "the op runs in the dtypes of its arguments")
    policies = ", ".join(f"{device}: {policy}" for device, policy in record.autocast.items())
    return RuleFact("autocast", Status.registered, policies)
