"""The lowering of one call for several platforms at once, each with its own kernel.

``jax.lax.platform_dependent`` drops the branches that are for none of the platforms, but lowers each other
branch for all platforms. So a program could not contain both a Pallas kernel for TPUs and its substitute for
CPUs. This module lowers each branch for its own platforms only. It belongs to the carrier because no other
module may use ``jax.interpreters``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
from jax.extend.core import Primitive
from jax.interpreters import mlir

from oplib.library.kernels.kernel_choice import group_platforms

from .own_refs import find_effects, to_function


def lower_late(primitive: Any) -> None:
    """Makes JAX ignore the jaxpr among the parameters of a primitive until the primitive is lowered.

    Some functions of JAX (``jnp.searchsorted``, ``jax.scipy.linalg.expm``) are primitives of a higher level,
    which JAX expands before lowering. JAX asks each primitive whose parameters contain such primitives to
    expand them, and does not know how to do this for oplib's primitives. These trace their function anew when
    they are lowered, and the new trace contains only expanded primitives.
    """
    primitive.is_high = lambda *_, **__: False


_apart = Primitive("on_platforms")
_apart.multiple_results = True
lower_late(_apart)


@_apart.def_effectful_abstract_eval
def _avals(*_avals: Any, jaxpr: Any, **_: Any) -> tuple[list[Any], Any]:
    return list(jaxpr.out_avals), find_effects(jaxpr)


def _run(*arrays: Any, jaxpr: Any, **_: Any) -> list[Any]:
    return to_function(jaxpr)(*arrays)


_lower = mlir.lower_fun(_run, multiple_results=True)


def lower_for_each(ctx: Any, *args: Any, slots: tuple[str, ...], jaxpr: Any) -> Any:
    """Lowers a closed jaxpr once for each kernel that runs on a platform of the module.

    Args:
        ctx: the context of the lowering.
        *args: the lowered arguments.
        slots: the slots for which the op has kernels.
        jaxpr: the jaxpr of the call, with a branch for each kernel.
    """
    groups = group_platforms(ctx.module_context.platforms, slots)
    branches = {
        platform: branch
        for group in groups
        for branch in [partial(_apart.bind, platforms=group, jaxpr=jaxpr)]
        for platform in group
    }

    def run(*arrays: Any) -> list[Any]:
        return jax.lax.platform_dependent(*arrays, **branches)

    return mlir.lower_fun(run, multiple_results=True)(ctx, *args)


def _lower_apart(ctx: Any, *args: Any, platforms: tuple[str, ...], jaxpr: Any) -> Any:
    """Lowers for some of the module's platforms, without sharing their code with the other platforms."""
    module = ctx.module_context.replace(
        platforms=platforms, lowering_cache={}, cached_primitive_lowerings={}, pallas_lowering_cache={}
    )
    return _lower(ctx.replace(module_context=module), *args, jaxpr=jaxpr)


mlir.register_lowering(_apart, _lower_apart)
