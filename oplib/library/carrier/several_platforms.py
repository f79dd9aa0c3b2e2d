"""Lowering one call for several platforms at once, each of which sees its own kernel alone.

``jax.lax.platform_dependent`` drops the branches that are for none of the platforms, but lowers each of the
others for all of them, and so a Pallas kernel for TPUs could not be exported in one program with its stand-in
for CPUs. Here each branch is lowered for its own platforms only. Beside the carrier, because nothing else may
touch ``jax.interpreters``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
from jax.extend.core import Primitive, jaxpr_as_fun
from jax.interpreters import mlir

from oplib.library.kernels.kernel_choice import group_platforms


def lower_late(primitive: Any) -> None:
    """Has JAX leave the jaxpr among the parameters of a primitive alone until the primitive is lowered.

    JAX's newest functions (``jnp.searchsorted``, ``jax.scipy.linalg.expm``) are primitives of a higher kind,
    which are made of others before anything is lowered; JAX asks each primitive whose parameters hold some
    to do that for its own, and of ours it cannot know. They trace theirs anew when they are lowered, and what
    is traced there is made of lower ones by itself.
    """
    primitive.is_high = lambda *_, **__: False


_apart = Primitive("on_platforms")
_apart.multiple_results = True
lower_late(_apart)


@_apart.def_effectful_abstract_eval
def _avals(*_avals: Any, jaxpr: Any, **_: Any) -> tuple[list[Any], Any]:
    return list(jaxpr.out_avals), jaxpr.effects


def _run(*arrays: Any, jaxpr: Any, **_: Any) -> list[Any]:
    return jaxpr_as_fun(jaxpr)(*arrays)


_lower = mlir.lower_fun(_run, multiple_results=True)


def lower_for_each(ctx: Any, *args: Any, slots: tuple[str, ...], jaxpr: Any) -> Any:
    """Lowers a closed jaxpr once for each kernel that runs on a platform of the module.

    Args:
        ctx: of the lowering.
        *args: lowered arguments.
        slots: for which the op has kernels.
        jaxpr: of the call, with a branch for each kernel.
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
    """Lowers for some of the module's platforms, and shares with the others no code made for them alone."""
    module = ctx.module_context.replace(
        platforms=platforms, lowering_cache={}, cached_primitive_lowerings={}, pallas_lowering_cache={}
    )
    return _lower(ctx.replace(module_context=module), *args, jaxpr=jaxpr)


mlir.register_lowering(_apart, _lower_apart)
