"""Qualified names, ``namespace::name`` and ``namespace::name.overload``, and suggestions for unknown ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, NamedTuple

from oplib.errors import RegistrationError, RegistrationValueError
from oplib.protocols import Values

from .sites import Site

# `prim` belongs to torch's interpreter: a program that is ported from or to torch cannot use it either.
# `oplib` holds the built-in ops.
RESERVED_NAMESPACES = ("prim", "oplib")


class Qualname(NamedTuple):
    """The parts of a qualified name; ``overload`` is empty for the default overload.

    ``str(qualname)`` joins the parts again; ``packet`` omits the overload.
    """

    namespace: str
    name: str
    overload: str = ""

    @property
    def packet(self) -> str:
        """``namespace::name``, shared by all overloads."""
        return f"{self.namespace}::{self.name}"

    @property
    def local(self) -> str:
        """The name inside its namespace: ``name`` or ``name.overload``."""
        return f"{self.name}.{self.overload}" if self.overload else self.name

    def __str__(self) -> str:
        return f"{self.namespace}::{self.local}"


class LocalQualname(Qualname):
    """The name of a local op, which is not in the registry. Two local ops may have the same text as name.

    Attributes:
        home: a weak reference to the overload.
        pieces: the contributions to the op, which the registry holds for every other op.
    """

    home: Any
    pieces: Values = ()

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


def parse_qualname(text: object, *, subject: str) -> Qualname:
    """Splits a qualified name. The schema parser checks the characters of its parts.

    Args:
        text: ``namespace::name`` or ``namespace::name.overload``; ``default`` is the unnamed overload.
        subject: the calling function, for the error.

    Raises:
        RegistrationValueError: not a string, or not exactly one ``::`` in it.

    Example:
        >>> parse_qualname("demo::add.out", subject="define")
        Qualname(namespace='demo', name='add', overload='out')
    """
    if not isinstance(text, str):
        raise RegistrationValueError(
            f"{subject}: the op's name is expected to be a str. Got {type(text).__name__}. "
            f'Write "namespace::name".'
        )
    parts = text.split("::")
    if len(parts) != 2:
        raise RegistrationValueError(
            f'{subject}: a qualified name is of the form "namespace::name". Got {text!r}, which has '
            f"{len(parts) - 1} times `::` and not once. Write a namespace, `::` and a name, for example "
            "demo::softclip."
        )
    name, _, overload = parts[1].partition(".")
    return Qualname(parts[0], name, "" if overload == "default" else overload)


def check_namespace(namespace: str, site: Site) -> None:
    """Raises RegistrationValueError for a reserved namespace, unless the package itself defines the op."""
    if namespace in RESERVED_NAMESPACES and not site.is_inside:
        raise RegistrationValueError(
            f"{namespace} is a reserved namespace. Got a definition in it at {site}. "
            f"Define your ops under a name of your own, for example that of your package."
        )


def require_same_namespace(namespace: str, own: str, *, subject: str) -> None:
    """Raises RegistrationError if a name has another namespace than its library."""
    if namespace != own:
        raise RegistrationError(
            f"{subject}: the explicitly provided namespace ({namespace}) does not match namespace of the "
            f"library. Got a library of namespace {own}. Leave the namespace out, or use a library of "
            f"{namespace}."
        )


def name_nearest(name: str, known: Iterable[str]) -> str:
    """Returns a sentence that names the known names nearest to a given one.

    Args:
        name: the name that was not found.
        known: the known names; names of the same namespace come first.

    Example:
        >>> name_nearest("demo::softclp", ["demo::softclip", "demo::scale"])
        'The nearest name is demo::softclip.'
    """
    names = sorted(set(known))
    if not names:
        return "Nothing is registered."
    namespace, colons, local = name.rpartition("::")
    prefix = f"{namespace}{colons}"
    siblings = [known.removeprefix(prefix) for known in names if known.startswith(prefix)]
    near = [f"{prefix}{match}" for match in difflib.get_close_matches(local, siblings)]
    near = near or difflib.get_close_matches(name, names, cutoff=0.75)
    if not near:
        return "No registered name is near it."
    return (
        f"The nearest name is {near[0]}." if len(near) == 1 else f"The nearest names are {', '.join(near)}."
    )
