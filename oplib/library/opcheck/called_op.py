"""The op that a public function calls, such as ``oplib.sin``, and the arguments that it gives to the op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from oplib.errors import RegistrationValueError
from oplib.library.objects.observers import ObservedCall, observing
from oplib.library.objects.overload import OpOverload
from oplib.pytree import tree_leaves, tree_map
from oplib.tensor import Tensor

from .sample import is_inexact

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def find_called_op(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[OpOverload, tuple[Any, ...], dict[str, Any]]:
    """Calls a function, and returns the op that it calls, with the positional and keyword arguments.

    Arrays become Tensors, which require grad if no Tensor is among the arguments.

    Raises:
        RegistrationValueError: it calls no op, or several.
    """
    calls: list[tuple[OpOverload, Arguments]] = []

    def note(call: ObservedCall) -> Any:
        calls.append((call.overload, call.arguments))
        return call.run()

    has_tensors = any(isinstance(value, Tensor) for value in tree_leaves((args, kwargs)))

    def to_tensor(value: Any) -> Any:
        if not isinstance(value, (jax.Array, np.ndarray)):
            return value
        return Tensor.from_array(value, requires_grad=not has_tensors and is_inexact(value))

    tensors, keywords = tree_map(to_tensor, (tuple(args), dict(kwargs)))
    with observing(note):
        function(*tensors, **keywords)
    if len(calls) != 1:
        names = ", ".join(str(overload) for overload, _ in calls) or "none"
        raise RegistrationValueError(
            f"opcheck({function.__name__}, ...): it checks one op, and this function does not call one. It "
            f"calls {names}. Check each op by itself, such as ops.ns.f.default; gradcheck takes any function."
        )
    overload, (positional, keyword_only) = calls[0]
    return overload, positional, keyword_only
