"""Under which names made functions are found: pickle goes by them, and so does whoever reads a traceback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

_SUBMODULES = ("linalg", "fft", "special")


def name_function(function: Function, name: str, submodule: str = "") -> Function:
    """Gives a made function the name under which it is public.

    Args:
        function: the function.
        name: of its op; or, with a submodule, of the function there.
        submodule: where it is public, if neither at the root nor where the prefix of its op says.
    """
    submodule = submodule or next((one for one in _SUBMODULES if name.startswith(f"{one}_")), "")
    function.__name__ = name
    # pickle finds it there: a configuration that holds an activation may be sent to another process.
    function.__qualname__ = name.removeprefix(f"{submodule}_") if submodule else name
    function.__module__ = f"oplib.{submodule}" if submodule else "oplib"
    return function


def name_method(function: Function, name: str, method: str = "") -> Function:
    """Gives a function that is public only as a method of Tensor the name under which it is found there.

    Args:
        function: the function.
        name: of its op.
        method: of the method, if that is another.
    """
    function.__name__ = name
    function.__qualname__ = f"Tensor.{method or name}"
    function.__module__ = "oplib"
    return function
