"""A derived op is its kernel for JAX: the rules of primitives in the kernel are JAX's to choose."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import hijax

import oplib
from oplib.errors import MissingRuleError
from oplib.library import custom_op

from .uncompiled import uncompiled_kernels

pytestmark = pytest.mark.usefixtures("forget_ops")

Base: Any = getattr(hijax, "VJPHiPrimitive", None) or hijax.HiPrim  # pyright: ignore[reportAttributeAccessIssue]
ROW = jnp.array([0.5, 1.0, -2.0])
ROWS = jnp.stack([ROW, ROW + 1])


class MarkedSin(Base):
    """The sine. Its backward counts seven times, and its jvp rule five times, if it has one."""

    def __init__(self, aval: Any) -> None:
        self.in_avals, self.out_aval, self.params = (aval,), aval, {}
        super().__init__()

    def expand(self, x: Any) -> Any:
        return jnp.sin(x)

    def vjp_fwd(self, nzs_in: Any, /, x: Any) -> Any:
        del nzs_in
        return self(x), x

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        return (7 * outgrad * jnp.cos(res),)

    def batch(self, axis_data: Any, args: Any, dims: Any) -> Any:
        del axis_data
        return type(self)(jax.typeof(args[0]))(args[0]), dims[0]


class MarkedSinWithJvp(MarkedSin):
    def jvp(self, primals: Any, tangents: Any) -> Any:
        return self(*primals), 5 * tangents[0] * jnp.cos(primals[0])


def marked_sin(x: Any) -> Any:
    return MarkedSinWithJvp(jax.typeof(x))(x)


def backward_only(x: Any) -> Any:
    return MarkedSin(jax.typeof(x))(x)


def derive(function: Any, kind: str = "named") -> Any:
    def kernel(x: jax.Array) -> jax.Array:
        return function(x)

    def on_tensors(x: oplib.Tensor) -> oplib.Tensor:
        return oplib.Tensor.from_array(function(x.array))

    if kind == "local":
        return custom_op(kernel, autograd="derive")
    if kind == "local on Tensors":
        return custom_op(on_tensors, autograd="derive")
    own: Any = {} if "Tensors" in kind else {"compile": "plain" not in kind}
    op = custom_op("derived::op", on_tensors if "Tensors" in kind else kernel, autograd="derive", **own)
    if "two kernels" in kind:
        op.register_kernel("cuda")(kernel)
    if "batching rule" in kind:
        run = on_tensors if "Tensors" in kind else function
        op.register_vmap(lambda info, dims, x: (run(x), 0))
    if "sharding rule" in kind:
        op.register_sharding("i -> i")
    return op


KINDS = ["named", "local", "on Tensors", "local on Tensors", "plain", "two kernels", "plain two kernels"]
RULES = ["batching rule", "on Tensors batching rule", "plain batching rule", "sharding rule"]


SETTINGS: dict[str, Any] = {
    "compiled": nullcontext,
    "disable_jit": jax.disable_jit,
    "compile_kernels": uncompiled_kernels,
}


def _loss(f: Any) -> Any:
    return lambda x: f(x).sum()


REVERSE: dict[str, Any] = {
    "grad": lambda f: jax.grad(_loss(f))(ROW),
    "jit of grad": lambda f: jax.jit(jax.grad(_loss(f)))(ROW),
    "vjp": lambda f: jax.vjp(f, ROW)[1](jnp.ones(3))[0],
    "vmap of grad": lambda f: jax.vmap(jax.grad(_loss(f)))(ROWS),
    "grad of vmap": lambda f: jax.grad(_loss(jax.vmap(f)))(ROWS),
    "grad of scan": lambda f: jax.grad(lambda x: jax.lax.scan(lambda c, v: (c, f(v)), 0.0, x)[1].sum())(ROW),
}
FORWARD: dict[str, Any] = {
    "jvp": lambda f: jax.jvp(f, (ROW,), (ROW,)),
    "jvp of vmap": lambda f: jax.jvp(jax.vmap(f), (ROWS,), (ROWS,)),
    "grad of grad": lambda f: jax.grad(lambda x: jax.grad(_loss(f))(x).sum())(ROW),
}


@pytest.mark.spec("D.56")
@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", [*REVERSE, *FORWARD])
def test_each_mode_takes_the_rule_that_it_takes_of_the_kernel(mode: str, kind: str, setting: str) -> None:
    run = (REVERSE | FORWARD)[mode]
    due = run(marked_sin)
    with SETTINGS[setting]():
        found = run(derive(marked_sin, kind))
    for given, other in zip(jax.tree.leaves(found), jax.tree.leaves(due), strict=True):
        np.testing.assert_allclose(given, other, rtol=1e-5)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", RULES)
def test_beside_a_rule_jax_cannot_choose_and_it_is_refused(kind: str, setting: str) -> None:
    op = derive(marked_sin, kind)
    for run in (REVERSE["grad"], REVERSE["vjp"], REVERSE["grad of vmap"], FORWARD["jvp"]):
        with SETTINGS[setting](), pytest.raises(MissingRuleError, match="that calls a hijax primitive where"):
            run(op)


@pytest.mark.parametrize("kind", RULES)
def test_an_ordinary_kernel_beside_a_rule_is_differentiated(kind: str) -> None:
    run = REVERSE["grad"]
    np.testing.assert_allclose(run(derive(jnp.sin, kind)), run(jnp.sin), rtol=1e-5)


@pytest.mark.parametrize("slots", [["cuda"], ["cuda", "tpu"]])
def test_a_platform_without_a_kernel_is_named(slots: list[str]) -> None:
    def kernel(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    op = custom_op("derived::elsewhere", kernel, device_types=slots[0], autograd="derive")
    for slot in slots[1:]:
        op.register_kernel(slot)(kernel)
    for run in (op, jax.jit(op), jax.vmap(op), jax.grad(_loss(op)), jax.jit(jax.grad(_loss(op)))):
        with pytest.raises(MissingRuleError, match=r"does not have a kernel registered for platform 'cpu'"):
            run(ROW)


@pytest.mark.parametrize("mode", REVERSE)
def test_a_primitive_with_a_backward_only_has_gradients(mode: str) -> None:
    np.testing.assert_allclose(REVERSE[mode](derive(backward_only)), REVERSE[mode](backward_only), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", [marked_sin, backward_only])
def test_the_tape_takes_the_backward_of_a_primitive(function: Any, kind: str) -> None:
    op = derive(function, kind)
    for run, values in ((op, ROW), (oplib.vmap(op), ROWS)):
        x = oplib.tensor(values, requires_grad=True)
        run(x).sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), 7 * jnp.cos(values), rtol=1e-5)


@pytest.mark.spec("D.56")
def test_the_kernel_of_the_platform_is_differentiated_in_its_own_way() -> None:
    op = derive(marked_sin)
    op.register_kernel("cpu")(lambda x: marked_sin(x) * 2)
    for run in (op, oplib.jit(op)):
        x = oplib.tensor(ROW, requires_grad=True)
        run(x).sum().backward()
        np.testing.assert_allclose(jax.grad(_loss(op))(ROW), 14 * jnp.cos(ROW), rtol=1e-5)
        assert x.grad is not None
        np.testing.assert_allclose(x.grad.numpy(), 14 * jnp.cos(ROW), rtol=1e-5)


def test_the_name_of_an_inlined_op_stays_in_scopes_and_for_policies() -> None:
    op = derive(lambda x: jnp.sin(x) * 2)
    assert "derived::op" in jax.jit(jax.vmap(op)).lower(ROWS).as_text(debug_info=True)
    policies = jax.checkpoint_policies
    computed = [
        str(jax.make_jaxpr(jax.grad(jax.checkpoint(lambda x: jnp.sin(op(x)).sum(), policy=policy)))(ROW))
        for policy in (policies.save_only_these_names("derived::op"), policies.nothing_saveable)
    ]
    assert computed[0].count("= sin ") < computed[1].count("= sin ")


@pytest.mark.spec("D.56")
def test_an_error_of_debug_nans_names_an_inlined_op() -> None:
    op = derive(jnp.log)
    for run in (op, jax.vmap(op), lambda x: jax.jvp(op, (x,), (x,))):
        with jax.debug_nans(True), pytest.raises(FloatingPointError, match="derived::op"):
            run(-ROWS)
