"""The names by which JAX's functions take rules and options, and what takes their place in oplib."""

from __future__ import annotations

_STATIC = (
    "annotations: an argument annotated float, int, bool or str, or with any class that can be hashed, "
    "is static, and is not differentiated; the formula returns None for it"
)
EQUIVALENTS = {
    "defvjp": (
        "register_autograd(backward, setup_context=save): save(ctx, inputs, output) keeps on ctx what fwd "
        "returned as residuals, and backward(ctx, *grads) returns what bwd did, with None for what is no "
        "tensor. For other residuals give forward=fwd: fwd(ctx, *args) keeps them, and returns the result"
    ),
    "defjvp": "register_jvp(rule), with the same rule(primals, tangents)",
    "defjvps": "register_jvp(rule): one rule(primals, tangents) for all arguments",
    **dict.fromkeys(
        ("def_vmap", "vmap"), "register_vmap(rule), with rule(info, in_dims, *args) -> (outputs, out_dims)"
    ),
    "def_partition": 'register_sharding(rule), with a rule as text: "i j, j -> i j"',
    "lower": "jax.jit(op).lower(*args)",
    **dict.fromkeys(("nondiff_argnums", "nondiff_argnames", "static_argnums", "static_argnames"), _STATIC),
}
_POSITIONAL = ("name", "fn")


def explain_attribute(subject: object, name: str) -> str:
    """Returns the text of the error for an attribute that an op does not have."""
    cure = EQUIVALENTS.get(name)
    of_jax = f", which is JAX's. Use {cure}." if cure else ""
    return f"{type(subject).__name__!r} object has no attribute {name!r}{of_jax}"


def explain_option(subject: str, name: str) -> str:
    """Returns the text of the error for an option that a function does not have."""
    if name in _POSITIONAL:
        return f"{subject}: positional-only argument passed as keyword argument: {name!r}. Pass it first."
    cure = EQUIVALENTS.get(name)
    advice = "Correct the name." if cure is None else f"It is JAX's. Use {cure}."
    return f"{subject}: there is no option {name!r}. {advice}"
