"""Suggestions for a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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
