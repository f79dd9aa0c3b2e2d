"""The carrier: an op inside JAX's transformations; ``matrix/`` tests their combinations.

Rules are marked: the backward formula is the true gradient times 7, the jvp rule the true tangent times 5. So
every number shows which rule ran.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.jet import jet

import oplib
from oplib.errors import AutogradError, MissingRuleError
from oplib.library import CustomOpDef, custom_op, define, impl, ops
from oplib.library.arguments.layout import make_layout
from oplib.library.jax_primitives.bound_call import BoundCall
from oplib.library.jax_primitives.linear import make_linear

X = jnp.array([0.3, -0.7, 1.1])
COS, SIN = np.cos(X), np.sin(X)


def save_x(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])


def make_op() -> CustomOpDef:
    """Registers a sine whose backward formula is marked."""

    @custom_op("carrier::sin")
    def op(x: jax.Array) -> jax.Array:
        return jnp.sin(x)

    op.register_autograd(lambda ctx, g: 7 * g * jnp.cos(ctx.saved_tensors[0]), setup_context=save_x)
    return op


def total(op: CustomOpDef) -> Any:
    return lambda x: op(x).sum()


def test_nested_vmap_sums_the_gradients_of_unbatched_inputs() -> None:
    @custom_op("carrier::scale")
    def scale(x: jax.Array, w: jax.Array) -> jax.Array:
        return x * w

    @scale.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        return 7 * grad * w, 7 * (grad * x).sum().reshape(w.shape)

    x, w = jnp.arange(24.0).reshape(2, 3, 4), jnp.float32(1.5)
    mapped = jax.vmap(jax.vmap(scale, in_axes=(0, None)), in_axes=(1, None), out_axes=1)
    grads = jax.grad(lambda *args: mapped(*args).sum(), argnums=(0, 1))(x, w)
    np.testing.assert_allclose(mapped(x, w), x * w)
    np.testing.assert_allclose(grads[0], jnp.full_like(x, 7 * 1.5))
    np.testing.assert_allclose(grads[1], 7 * x.sum(), rtol=1e-6)


def test_the_op_stands_in_the_jaxpr_under_its_own_name() -> None:
    op = make_op()
    assert "carrier::sin[" in str(jax.jit(lambda x: op(x)).trace(X).jaxpr)


def test_an_op_without_a_formula_raises_and_names_the_cure() -> None:
    @custom_op("carrier::opaque")
    def opaque(x: jax.Array) -> jax.Array:
        return x

    with pytest.raises(
        MissingRuleError, match=r"carrier::opaque.*no autograd formula was registered.*register_autograd"
    ):
        jax.grad(total(opaque))(X)


def test_a_constant_derivative_is_zero_and_a_missing_one_raises_with_its_reason() -> None:
    @custom_op("carrier::rounded")
    def rounded(x: jax.Array) -> jax.Array:
        return jnp.round(x)

    rounded.register_autograd(constant="it is piecewise constant")
    np.testing.assert_array_equal(jax.grad(total(rounded))(X), np.zeros(3))
    rounded.register_autograd(missing="nobody has derived it")
    with pytest.raises(MissingRuleError, match="because nobody has derived it"):
        jax.grad(total(rounded))(X)


def test_a_nonlinear_formula_has_no_derived_forward_mode() -> None:
    @custom_op("carrier::clipped")
    def clipped(x: jax.Array) -> jax.Array:
        return x

    clipped.register_autograd(lambda ctx, grad: jnp.clip(grad, -1, 1), nonlinear=True)
    np.testing.assert_allclose(jax.grad(lambda x: (3 * clipped(x)).sum())(X), np.ones(3))
    with pytest.raises(MissingRuleError, match=r"declared nonlinear.*register_jvp"):
        jax.jvp(clipped, (X,), (X,))


@pytest.mark.parametrize(
    "formula",
    [lambda ctx, grad: grad * 2 + 0.1 * ctx.saved_tensors[0], lambda ctx, grad: jnp.ones_like(grad)],
    ids=["affine", "ignores the gradient"],
)
def test_a_formula_with_a_term_free_of_the_gradient_is_not_transposed(formula: Any) -> None:
    @custom_op("carrier::affine")
    def affine(x: jax.Array) -> jax.Array:
        return x

    affine.register_autograd(formula, setup_context=save_x)
    with pytest.raises(AutogradError, match="carrier::affine: no forward mode can be derived"):
        jax.jvp(affine, (X,), (X,))


def test_a_where_on_a_residual_is_seen_to_be_linear() -> None:
    @custom_op("carrier::relu")
    def relu(x: jax.Array) -> jax.Array:
        return jnp.maximum(x, 0)

    relu.register_autograd(
        lambda ctx, grad: jnp.where(ctx.saved_tensors[0] > 0, grad, 0), setup_context=save_x
    )
    np.testing.assert_allclose(jax.jvp(relu, (X,), (jnp.ones(3),))[1], (X > 0).astype(np.float32))


def test_integer_inputs_none_gradients_and_several_outputs() -> None:
    @custom_op("carrier::pick")
    def pick(x: jax.Array, index: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        return x[index], index + 1, x * 2

    @pick.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    def backward(ctx, picked, _, doubled):
        assert _ is None
        x, index = ctx.saved_tensors
        return jnp.zeros_like(x).at[index].add(7 * picked) + 14 * doubled, None

    index = jnp.array(1)
    f = lambda x: pick(x, index)[0] + pick(x, index)[2].sum()  # noqa: E731
    np.testing.assert_allclose(jax.jit(jax.grad(f))(X), np.array([14, 21, 14]))
    np.testing.assert_allclose(jax.grad(lambda x: pick(x, index)[0])(X), np.array([0, 7, 0]))


def test_a_none_gradient_of_a_tensor_is_a_declared_zero() -> None:
    @custom_op("carrier::stop")
    def stop(x: jax.Array, y: jax.Array) -> jax.Array:
        return x * y

    stop.register_autograd(lambda ctx, grad: (grad, None))
    grads = jax.grad(lambda x, y: stop(x, y).sum(), argnums=(0, 1))(X, X)
    np.testing.assert_array_equal(grads, [np.ones(3), np.zeros(3)])


def test_list_and_optional_arguments_under_every_transformation() -> None:
    @custom_op("carrier::blend")
    def blend(xs: list[jax.Array], bias: jax.Array | None = None) -> list[jax.Array]:
        return [x * (1 + i) + (0 if bias is None else bias) for i, x in enumerate(xs)]

    @blend.register_autograd(
        setup_context=lambda ctx, inputs, output: setattr(ctx, "has_bias", inputs[1] is not None)
    )
    def backward(ctx, grads):
        return [7 * g * (1 + i) for i, g in enumerate(grads)], 7 * sum(
            g for g in grads
        ) if ctx.has_bias else None

    f = lambda x, y, b: sum(v.sum() for v in blend([x, y], b))  # noqa: E731
    grads = jax.jit(jax.grad(f, argnums=(0, 1, 2)))(X, X, X)
    np.testing.assert_allclose(grads, [np.full(3, 7), np.full(3, 14), np.full(3, 14)])
    np.testing.assert_allclose(jax.grad(lambda x: f(x, x, None))(X), np.full(3, 21))
    np.testing.assert_allclose(jax.vmap(lambda x: blend([x, x])[1])(X), 2 * X)


def test_a_formula_on_complex_arrays_is_written_as_for_torch_and_gives_jax_its_own_gradients() -> None:
    @custom_op("carrier::square")
    def square(z: jax.Array) -> jax.Array:
        return z * z

    square.register_autograd(lambda ctx, g: 2 * g * ctx.saved_tensors[0].conj(), setup_context=save_x)
    z = jnp.array([1 + 2j, -0.5 + 0.3j])
    loss = lambda op: lambda z: jnp.real((2 + 1j) * op(z)).sum()  # noqa: E731
    plain = lambda z: z * z  # noqa: E731
    np.testing.assert_allclose(jax.grad(loss(square))(z), jax.grad(loss(plain))(z), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(jax.grad(loss(square)))(z), jax.grad(loss(plain))(z), rtol=1e-6)
    np.testing.assert_allclose(jax.jvp(square, (z,), (1j * z,)), jax.jvp(plain, (z,), (1j * z,)), rtol=1e-6)
    x = oplib.Tensor.from_array(z, requires_grad=True)
    (grad,) = oplib.autograd.grad(square(x), x, oplib.Tensor.from_array(jnp.full(2, 2 - 1j)))
    np.testing.assert_allclose(grad.numpy(), np.conj(jax.grad(loss(plain))(z)), rtol=1e-6)


def test_vmap_runs_the_registered_rule_once_per_level_and_keeps_the_formula() -> None:
    sizes: list[int] = []

    @custom_op("carrier::ruled")
    def ruled(x: jax.Array, y: jax.Array) -> jax.Array:
        return x * y

    @ruled.register_vmap
    def rule(info, in_dims, x, y):
        sizes.append(info.batch_size)
        assert in_dims == (0, None)
        return 100 * x * y, 0

    ruled.register_autograd(lambda ctx, g: (7 * g, None))
    mapped = jax.vmap(ruled, in_axes=(0, None))
    np.testing.assert_allclose(mapped(X, jnp.float32(2)), 200 * X)
    assert sizes == [3]
    np.testing.assert_allclose(jax.grad(lambda x: mapped(x, jnp.float32(2)).sum())(X), np.full(3, 7.0))
    np.testing.assert_allclose(jax.vmap(mapped, in_axes=(0, None))(X[None], jnp.float32(2)), 200 * X[None])


@pytest.mark.devices(8)
def test_a_replicated_operand_of_a_host_op_gets_its_gradient_once_in_shard_map() -> None:
    @custom_op("carrier::host_scale")
    def host_scale(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return x * w

    host_scale.register_fake(lambda x, w: jax.ShapeDtypeStruct(x.shape, x.dtype))
    host_scale.register_autograd(
        lambda ctx, g: (g * ctx.saved_tensors[1], (g * ctx.saved_tensors[0]).sum()),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec
    f = jax.shard_map(host_scale, mesh=mesh, in_specs=(spec("i"), spec()), out_specs=spec("i"))
    x, w = jnp.arange(8.0), jnp.float32(3)
    grads = jax.jit(jax.grad(lambda x, w: f(x, w).sum(), argnums=(0, 1)))(x, w)
    np.testing.assert_allclose(grads[0], np.full(8, 3.0))
    np.testing.assert_allclose(grads[1], x.sum())


@pytest.mark.devices(8)
def test_in_shard_map_a_gradient_may_be_none_or_a_constant() -> None:
    @custom_op("carrier::half")
    def half(x: jax.Array, w: jax.Array) -> jax.Array:
        return x * w

    mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec
    x, w = jnp.arange(8.0), jnp.float32(3)
    for by_w in (None, jnp.zeros(())):
        half.register_autograd(lambda ctx, g, by_w=by_w: (g * 2, by_w))
        mapped = jax.shard_map(half, mesh=mesh, in_specs=(spec("i"), spec()), out_specs=spec("i"))
        grads = jax.jit(jax.grad(lambda x, w, mapped=mapped: mapped(x, w).sum(), argnums=(0, 1)))(x, w)
        np.testing.assert_array_equal(grads[0], np.full(8, 2.0))
        assert grads[1] == 0.0
        np.testing.assert_allclose(jax.jit(lambda x, w, f=mapped: jax.jvp(f, (x, w), (x, w))[1])(x, w), 2 * x)


def test_rules_of_an_eager_op_work_on_tensors_in_both_modes() -> None:
    @custom_op("carrier::eager_sin")
    def by_formula(x: oplib.Tensor) -> oplib.Tensor:
        return x.sin()

    @custom_op("carrier::eager_pushed")
    def by_rule(x: oplib.Tensor) -> oplib.Tensor:
        return x.sin()

    by_formula.register_autograd(lambda ctx, g: g * ctx.saved_tensors[0].cos() * 7, setup_context=save_x)
    by_rule.register_jvp(lambda primals, tangents: (primals[0].sin(), tangents[0] * primals[0].cos() * 5))
    for op, factor in ((by_formula, 7), (by_rule, 5)):
        np.testing.assert_allclose(jax.grad(total(op))(X), factor * COS, rtol=1e-5)
        np.testing.assert_allclose(jax.jvp(op, (X,), (jnp.ones(3),))[1], factor * COS, rtol=1e-5)
        np.testing.assert_allclose(jax.vmap(jax.hessian(op))(X), -factor * SIN, rtol=1e-5)


def test_jax_looks_into_a_composite_op() -> None:
    define("carrier::square", "(Tensor x) -> Tensor")
    impl("carrier::square", "", lambda x: x * x)
    op = ops.carrier.square
    np.testing.assert_allclose(jax.jit(jax.grad(total(op)))(X), 2 * X)
    np.testing.assert_allclose(jax.vmap(jax.hessian(op))(X), np.full(3, 2.0))


def test_tensors_inside_jit_take_the_same_path() -> None:
    op = make_op()

    @jax.jit
    def step(array):
        x = oplib.Tensor.from_array(array, requires_grad=True)
        (grad,) = oplib.autograd.grad(op(x).sum(), x)
        return grad.array

    np.testing.assert_allclose(step(X), 7 * COS, rtol=1e-5)


def test_nothing_in_jaxs_tables_keeps_a_replaced_kernel_or_rule_alive() -> None:
    def register(factor: float) -> tuple[CustomOpDef, list[weakref.ref[Any]]]:
        def kernel(x: jax.Array) -> jax.Array:
            return x * factor

        def setup(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(jnp.full_like(inputs[0], factor))

        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0] * factor / factor

        op = custom_op("carrier::replaced", kernel)
        op.register_autograd(backward, setup_context=setup)
        return op, [weakref.ref(function) for function in (kernel, setup, backward)]

    op, replaced = register(2.0)
    x = oplib.tensor([1.0], requires_grad=True)
    op(x).sum().backward()
    jax.jit(jax.grad(total(op)))(X)
    jax.jvp(op, (X,), (X,))
    jax.vmap(op)(X)
    op, _ = register(3.0)
    op(X)
    gc.collect()
    assert [function() for function in replaced] == [None, None, None]


def test_the_derivatives_of_one_call_are_equal_so_that_jax_compiles_them_once() -> None:
    call = specialize(make_op())
    inputs, outputs = (X,), (jnp.sin(X),)
    (one, _), (other, _) = (make_linear(call, (), (True,), inputs=inputs, outputs=outputs) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)


def specialize(op: CustomOpDef) -> BoundCall:
    overload = op._opoverload
    return BoundCall(overload, make_layout(overload._schema, [X], frozenset(), op=overload.name())[0])


def test_a_formula_gets_arrays_for_numbers_of_a_jaxpr() -> None:
    def differentiate(x: Any) -> Any:
        return oplib.copysign(jnp.reshape(x, ()), -1.0) * x[0]

    assert jax.jit(jax.grad(differentiate))(jnp.ones(1)).tolist() == [-2.0]


def test_a_transformation_with_a_table_of_its_own_is_named() -> None:
    series = (jnp.ones(3), jnp.zeros(3))
    with pytest.raises(MissingRuleError, match=r"^carrier::sin: jax.experimental.jet knows only .*jax.jvp"):
        jet(make_op(), (X,), (series,))


def test_a_printed_jaxpr_says_what_each_parameter_is() -> None:
    op = make_op()
    text = str(jax.make_jaxpr(lambda x: jax.jvp(jax.vmap(op, axis_name="i"), (x,), (x,)))(X[None]))
    assert "linear=derivative of carrier::sin by x" in text
    assert "attached=rules of carrier::sin" in text
    assert "levels=(vmap(i: 1, in_axes=(0,)),)" in str(jax.make_jaxpr(jax.vmap(op, axis_name="i"))(X[None]))
    assert "0x" not in text
