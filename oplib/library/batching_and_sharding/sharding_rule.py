"""Sharding rules: which axes of an op's arrays may be partitioned over devices together.

A rule is written in Shardy's notation: one entry per tensor argument and per result, with a name for each
axis. Axes with the same name are partitioned alike. An axis that only arguments have, or only results, is
kept whole on every device, because the rule does not say how a kernel handles a part of it. So ``i j, j k ->
i k`` is correct for any kernel. An axis that is declared a reduction is partitioned, and the results of the
parts are summed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from oplib.errors import RegistrationTypeError, RegistrationValueError
from oplib.frozen import frozen
from oplib.library.schema import FunctionSchema

Axes = tuple[str, ...]
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*$")
_KINDS = re.compile(r"\s*\b(\w+)\s*=\s*\{([^{}]*)\}\s*$")
ELLIPSIS = "..."


@frozen
class ShardingRule:
    """A parsed rule.

    Attributes:
        text: the text of the user.
        operands: for each tensor argument the names of its axes; the entry of a list is that of each item.
        results: the same for each declared result, or for each array in the results if one is a pytree.
        reduced: the axes over which the results of the parts are summed.
        kept: axes of arguments and results that are nevertheless kept whole.
    """

    text: str
    operands: tuple[Axes, ...]
    results: tuple[Axes, ...]
    reduced: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()


def check_sharding_rule(schema: FunctionSchema, rule: object) -> None:
    """Raises if a rule cannot belong to this op.

    Raises:
        RegistrationTypeError: the rule is no text.
        RegistrationValueError: the rule cannot be parsed, its entries do not match the arguments or results
            of the op, or the op draws random numbers.
    """
    draws = next((argument.name for argument in schema.arguments if argument.is_generator), None)
    if draws is not None:
        raise RegistrationValueError(
            f"register_sharding({schema.qualified_name}): every part would draw the same random numbers. Its "
            f"argument '{draws}' is a Generator, and all parts begin at one key. Leave the rule out, and XLA "
            "partitions the kernel by itself; or draw outside and pass the numbers."
        )
    if not isinstance(rule, str):
        raise RegistrationTypeError(
            f"register_sharding({schema.qualified_name}): the rule is no text. Got {type(rule).__name__}. "
            "Write a name per axis, such as 'i j, j k -> i k'; '...' stands for any number of leading axes."
        )
    read_sharding_rule(schema, rule)


def read_sharding_rule(schema: FunctionSchema, text: str) -> ShardingRule:
    """Parses a rule, and compares it with the op, see :func:`check_sharding_rule`."""
    body, kinds = _read_kinds(schema, text)
    sides = body.split("->")
    if len(sides) != 2:
        raise refuse_rule(schema, text, f"it has {len(sides) - 1} arrows", "Write 'arguments -> results'")
    arguments = [argument.name for argument in schema.arguments if argument.has_tensor]
    results = [f"result {index}" for index in range(len(schema.returns))]
    operands = _read_side(schema, text, sides[0], arguments, what="argument")
    made = _read_side(schema, text, sides[1], results, what="result")
    named, returned = ({name for axes in side for name in axes} for side in (operands, made))
    for name in sorted(kinds["reduction"] - (named - returned)):
        told = f"axis '{name}' is named a reduction, and is not one that only arguments have"
        raise refuse_rule(schema, text, told, "Name axes that are summed over")
    for name in sorted(kinds["need_replication"] - (named | returned)):
        told = f"axis '{name}' is to be kept whole, and no array has it"
        raise refuse_rule(schema, text, told, "Name axes of the rule")
    return ShardingRule(text, operands, made, kinds["reduction"], kinds["need_replication"])


def _read_kinds(schema: FunctionSchema, text: str) -> tuple[str, dict[str, frozenset[str]]]:
    """Splits off the suffixes of a rule: ``reduction={j}`` and ``need_replication={k}``."""
    kinds: dict[str, frozenset[str]] = {"reduction": frozenset(), "need_replication": frozenset()}
    body = text
    while (match := _KINDS.search(body)) is not None:
        if match[1] not in kinds:
            told = f"there is no kind of axis called '{match[1]}'"
            raise refuse_rule(schema, text, told, f"Known are {' and '.join(kinds)}")
        kinds[match[1]] = frozenset(match[2].replace(",", " ").split())
        body = body[: match.start()]
    return body, kinds


def _read_side(
    schema: FunctionSchema, text: str, side: str, names: Sequence[str], *, what: str
) -> tuple[Axes, ...]:
    entries = [tuple(entry.split()) for entry in side.split(",")]
    if not names and entries == [()]:
        return ()
    is_open = what == "result" and schema.has_result_tree  # a tree may have an entry for each of its arrays
    if len(entries) != len(names) and not (is_open and len(entries) > len(names)):
        told = f"it has {len(entries)} entries for {what}s, and the op has {len(names)}: {', '.join(names)}"
        raise refuse_rule(
            schema, text, told, f"Write one entry per {'tensor argument' if what[0] == 'a' else what}"
        )
    named = names if len(entries) == len(names) else [f"result {index}" for index in range(len(entries))]
    for index, (entry, name) in enumerate(zip(entries, named, strict=True)):
        _check_entry(schema, text, entry, f"{what} {index} ('{name}')" if what == "argument" else name)
    return tuple(entries)


def _check_entry(schema: FunctionSchema, text: str, entry: Axes, subject: str) -> None:
    for index, name in enumerate(entry):
        if name == ELLIPSIS and index == 0:
            continue
        if not _NAME.match(name):
            cure = "Name each axis with a letter and letters, digits or _; '...' may stand first"
            raise refuse_rule(schema, text, f"axis {index} of {subject} is written {name!r}", cure)
        if name in entry[:index]:
            told = f"axis {index} of {subject} is called '{name}', like an axis before it"
            raise refuse_rule(schema, text, told, "Give every axis of an array a name of its own")


def refuse_rule(schema: FunctionSchema, text: str, told: str, cure: str) -> RegistrationValueError:
    """Returns the error for a rule that does not fit an op or a call of it."""
    return RegistrationValueError(
        f"{schema.qualified_name}: the sharding rule {text!r} does not fit the op: {told}. "
        f"Got {schema}. {cure}."
    )
