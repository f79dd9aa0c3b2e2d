"""Tags: their arguments, and the schemas that may carry them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oplib.errors import ExclusiveTagsError, RegistrationTypeError, RegistrationValueError, describe
from oplib.library.schema import Argument, FunctionSchema

from .record import Tag

Tags = Tag | Iterable[Tag] | None


def to_tags(tags: Tags, *, subject: str) -> tuple[Tag, ...]:
    """Returns tags as a tuple without repetition; raises RegistrationTypeError for what is no Tag."""
    items: list[Any] = [tags] if isinstance(tags, (Tag, str)) else list(tags or ())
    for tag in items:
        if not isinstance(tag, Tag):
            raise RegistrationTypeError(
                f"{subject}: 'tags' is one oplib.Tag or several. Got {describe(tag)}. Write Tag.inplace or "
                "the like."
            )
    return tuple(dict.fromkeys(items))


def check_tags(schema: FunctionSchema, tags: tuple[Tag, ...]) -> None:
    """Raises if a schema breaks the promise of a tag.

    Raises:
        ExclusiveTagsError: the tags exclude each other.
        RegistrationValueError: the schema breaks a rule of ``Tag.inplace`` or ``Tag.out``; the text names it.
    """
    if Tag.inplace in tags and Tag.out in tags:
        raise ExclusiveTagsError(
            f"{schema.qualified_name}: Tag.inplace and Tag.out are mutually exclusive. Got both. Keep one of "
            "them."
        )
    for tag, find_broken_rule in ((Tag.inplace, _find_broken_inplace_rule), (Tag.out, _find_broken_out_rule)):
        broken = find_broken_rule(schema) if tag in tags else None
        if broken is not None:
            rule, cure = broken
            raise RegistrationValueError(
                f"{schema.qualified_name}: a schema tagged with Tag.{tag.name} {rule}. Got: {schema}. {cure}"
            )


def _find_broken_inplace_rule(schema: FunctionSchema) -> tuple[str, str] | None:
    """Returns the rule of ``Tag.inplace`` that a schema breaks, with the cure; None if it keeps all."""
    if not schema.num_positional:
        return "must have at least one positional argument", "Let it take the tensor that it writes."
    first, *others = schema.arguments
    if not first.is_written:
        return (
            "requires the first positional argument to be mutable (e.g., Tensor(a!))",
            "Add it to mutates_args, or mark it in the schema.",
        )
    if not first.is_tensor:
        return "requires the first positional argument to be a Tensor", "Let it take one Tensor there."
    if len(schema.returns) != 1 or not _aliases(schema, first, 0):
        return (
            "must return the first mutable argument, and nothing else",
            "Return one Tensor(a!): the first argument itself.",
        )
    if any(argument.is_written for argument in others):
        return (
            "must only mutate the first positional argument",
            "Leave the tag out, or the other written arguments.",
        )
    return None


def _find_broken_out_rule(schema: FunctionSchema) -> tuple[str, str] | None:
    """Returns the rule of ``Tag.out`` that a schema breaks, with the cure; None if it keeps all."""
    written = [argument for argument in schema.arguments if argument.is_written]
    if not written:
        return "must have at least one mutable argument", "Add the out tensors to mutates_args."
    if not all(argument.kwarg_only for argument in written):
        return "requires all mutable arguments to be keyword-only", "Move them behind the *."
    if not all(argument.is_tensor for argument in written):
        return "only supports Tensor mutable arguments", "Write single Tensors only."
    returned = all(_aliases(schema, argument, index) for index, argument in enumerate(written))
    if len(schema.returns) != len(written) or not returned:
        return (
            "must return all mutable arguments in their order (its return annotation differs)",
            "Return them as Tensor, or as a tuple of Tensors.",
        )
    return None


def _aliases(schema: FunctionSchema, argument: Argument, index: int) -> bool:
    """Tells whether a return is declared to be a given written argument."""
    if index >= len(schema.returns) or not schema.returns[index].is_tensor:
        return False
    mark, own = schema.returns[index].alias_info, argument.alias_info
    return mark is not None and own is not None and mark.is_write and mark.before_set == own.before_set
