"""Texts that complete docstrings."""

from __future__ import annotations

import inspect
import re

import pytest

import oplib
from oplib.docstrings import complete_docstring
from oplib.tensor.storage.factory_options import FactoryOptions

DOC = """Rounds.

    Args:
        x: a number,
            or several.

    Raises:
        ValueError: x is nan.
        ValueError: x is inf.

    Example:
        >>> 1
        1
    """
FACTORIES = ("zeros", "ones", "empty", "full", "eye", "arange", "linspace", "logspace", "rand", "randn")
LIKE = ("zeros_like", "full_like", "rand_like", "randn_like", "randint_like")


def test_a_docstring_keeps_its_own_texts() -> None:
    done = complete_docstring(DOC, {"x": "other."}, Raises="ValueError: other.", Example="other")
    assert done == inspect.cleandoc(DOC) + "\n"


def test_shared_texts_stand_where_the_signature_has_the_parameter() -> None:
    done = complete_docstring(DOC, {"first": "1.", "last": "2."}, order=["first", "x", "last"])
    assert "Args:\n    first: 1.\n    x: a number,\n        or several.\n    last: 2.\n\nRaises" in done


def test_sections_stand_in_their_order_and_errors_are_added() -> None:
    done = complete_docstring(DOC, Gradient="None.", Returns="a number.", Raises="TypeError: x is a text.")
    headings = [line for line in done.splitlines() if line and not line.startswith(" ")]
    assert headings == ["Rounds.", "Args:", "Returns:", "Raises:", "Gradient:", "Example:"]
    assert "x is inf.\n    TypeError: x is a text.\n\nGradient:\n    None.\n" in done


@pytest.mark.parametrize("name", [*FACTORIES, *LIKE, "randint", "randperm"])
def test_the_docstring_of_a_factory_describes_each_parameter_and_option(name: str) -> None:
    function = getattr(oplib, name)
    doc = inspect.getdoc(function) or ""
    names = list(inspect.signature(function).parameters)
    assert names[-6:] == list(FactoryOptions.__annotations__)
    assert [one for one in names if not re.search(rf"^    .*\b{one}(, \w+)*: ", doc, re.MULTILINE)] == []
    assert f"Source:\n    torch.{name}" in doc
