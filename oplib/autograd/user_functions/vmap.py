"""Checks of a Function's rule for vmap. The map itself is in ``transforms``."""

from __future__ import annotations

from typing import Any

from oplib.errors import AutogradError
from oplib.protocols import Values
from oplib.pytree import tree_flatten

from .user_function import Function


def uses_own_rule(cls: type[Function]) -> bool:
    """Returns True if a Function is mapped by its static ``vmap``, and False if its methods are mapped.

    Args:
        cls: the Function.

    Raises:
        AutogradError: it has both rules, or none, or its forward takes ctx and so cannot be mapped.

    Example:
        >>> import oplib
        >>> class Double(oplib.autograd.Function):
        ...     generate_vmap_rule = True
        ...
        ...     @staticmethod
        ...     def forward(x):
        ...         return x * 2
        ...
        ...     @staticmethod
        ...     def setup_context(ctx, inputs, output):
        ...         pass
        >>> uses_own_rule(Double)
        False
    """
    name = cls.__name__
    if cls.setup_context is Function.setup_context:
        raise AutogradError(
            f"{name}: under vmap a Function must override the setup_context staticmethod. Its forward takes "
            "ctx, and a batch has none. Write forward(*args) and setup_context(ctx, inputs, output)."
        )
    has_rule = cls.vmap is not Function.vmap
    if has_rule and cls.generate_vmap_rule:
        raise AutogradError(
            f"{name}: it has both generate_vmap_rule=True and an overridden vmap staticmethod. vmap uses one "
            "rule. Set generate_vmap_rule=False or delete vmap."
        )
    if not has_rule and not cls.generate_vmap_rule:
        raise AutogradError(
            f"{name}: it does not have vmap support. It has no rule. Implement the vmap staticmethod "
            "or set generate_vmap_rule=True."
        )
    return has_rule


def call_own_rule(
    cls: type[Function], info: Any, in_dims: Values, args: Values
) -> tuple[list[Any], list[int | None], Any]:
    """Calls the static ``vmap`` of a Function and checks its result.

    Args:
        cls: the Function.
        info: an object with ``batch_size`` and ``randomness``.
        in_dims: the batch dimension of each argument, or None, in containers as in ``args``.
        args: the arguments with their batch dimensions.

    Returns:
        The flat outputs, the batch dimension of each or None, and the structure of the outputs.

    Raises:
        AutogradError: the result is not a pair, or its parts have different structures.
    """
    returned = cls.vmap(info, in_dims, *args)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise AutogradError(
            f"{cls.__name__}: Expected the vmap staticmethod to have two returns, an output and out_dims. "
            f"Got {type(returned).__name__}. Return (output, out_dims), an int or None for each output."
        )
    output, out_dims = returned
    outputs, spec = tree_flatten(output)
    dims, dims_spec = tree_flatten(out_dims)
    if out_dims is None:
        return outputs, [None] * len(outputs), spec
    if dims_spec != spec or not all(dim is None or type(dim) is int for dim in dims):
        raise AutogradError(
            f"{cls.__name__}: its vmap staticmethod returned an incompatible (output, out_dims) tuple. Got "
            f"out_dims={out_dims!r} for outputs of structure {spec}. Give an int or None for each output."
        )
    return outputs, dims, spec
