"""The steps between a call of a function and the overload that runs: the choice, and checks of values."""

from __future__ import annotations

from typing import NamedTuple

from oplib.builtin.rows.row import Function
from oplib.library.dispatch.inlined_overloads import Branch


class OverloadChoice:
    """How a call finds the overload that it means.

    Args:
        function: takes the arguments of a call, and calls an overload. Its source becomes the body of the
            public function, so no name in it may begin with two underscores.
        *branches: overloads whose fast paths are tried first.
    """

    def __init__(self, function: Function, *branches: Branch) -> None:
        self.function = function
        self.branches = branches


class Check(NamedTuple):
    """Checks of values that compiled kernels cannot make.

    Attributes:
        arguments: takes the arguments of a call, and raises or not.
        result: takes the result and the arguments, and returns the result.
    """

    arguments: Function | None = None
    result: Function | None = None
