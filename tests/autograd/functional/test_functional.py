"""Jacobians, Hessians and products with them: against JAX's, and every way to be refused."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp
from oplib.errors import AutogradError, GradientTypeError, MissingRuleError, StrategyError

A, B = jnp.asarray([0.5, -1.0]), jnp.asarray(3.0)  # few ops and shapes: each is compiled for each order
V, W = jnp.asarray([1.0, 2.0]), jnp.asarray(0.5)


def two(a: Any, b: Any) -> Any:
    """Two outputs of two inputs, of other shapes."""
    return a * a * b, (a * b).sum()


def scalar(a: Any, b: Any) -> Any:
    return (a * a * b * b).sum()


def box(*arrays: Any, grad: bool = False) -> Any:
    return tuple(oplib.Tensor.from_array(array, requires_grad=grad) for array in arrays)


def assert_close(found: Any, expected: Any) -> None:
    """Compares nested tuples of Tensors with those of arrays, structure included."""
    if isinstance(expected, tuple):
        assert type(found) is tuple
        assert len(found) == len(expected)
        for one, its in zip(found, expected, strict=True):
            assert_close(one, its)
    else:
        assert isinstance(found, oplib.Tensor)
        assert found.array.shape == expected.shape
        np.testing.assert_allclose(found.array, expected, rtol=2e-5, atol=2e-5)


WAYS = {
    "rows": {},
    "batched rows": {"vectorize": True},
    "columns": {"vectorize": True, "strategy": "forward-mode"},
}
ways = pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
OUTER = {
    name: {"outer_jacobian_strategy" if key == "strategy" else key: value for key, value in options.items()}
    for name, options in WAYS.items()
}
outer_ways = pytest.mark.parametrize("options", OUTER.values(), ids=OUTER)


# Against JAX ------------------------------------------------------------------------------------------------


@ways
def test_a_jacobian_of_tuples_is_that_of_jax(options: Any) -> None:
    expected = jax.jacobian(two, argnums=(0, 1))(A, B)
    assert_close(jacobian(two, box(A, B), **options), expected)


def test_rows_of_a_matrix_are_those_of_jax() -> None:
    x = jnp.asarray([[0.5], [-1.0], [2.0]])
    (found,) = jacobian(lambda x: x * x.sum(), box(x))
    np.testing.assert_allclose(found.array, jax.jacobian(lambda x: x * x.sum())(x), rtol=2e-5)


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_gradients_of_a_scalar_are_tensors_of_their_own(create_graph: bool) -> None:
    x, y = (oplib.ones(2, requires_grad=True) for _ in range(2))
    passed = jacobian(lambda x, y: (x + y).sum(), (x, y), create_graph=create_graph)
    kept = jacobian(lambda x, y: (x * y).sum(), (x, y), create_graph=create_graph)
    for first, second in (passed, kept):
        first.mul_(3.0)
        assert first.tolist() == [3.0, 3.0]
        assert second.tolist() == x.tolist() == y.tolist() == [1.0, 1.0]
    if create_graph:
        (found,) = oplib.autograd.grad(kept[0].sum(), y)
        assert found.tolist() == [3.0, 3.0]


@ways
def test_a_jacobian_of_single_tensors_is_a_single_tensor(options: Any) -> None:
    assert_close(jacobian(lambda a: a * a, box(A)[0], **options), jnp.diag(2 * A))


@ways
def test_one_of_one_in_tuples_stays_in_tuples(options: Any) -> None:
    assert_close(jacobian(lambda a: (a * 2,), box(A), **options), ((2 * jnp.eye(2),),))


@pytest.mark.slow
@outer_ways
def test_a_hessian_of_tuples_is_that_of_jax(options: Any) -> None:
    expected = jax.hessian(scalar, argnums=(0, 1))(A, B)
    assert_close(hessian(scalar, box(A, B), **options), expected)


@outer_ways
def test_a_hessian_by_one_tensor_is_one_tensor(options: Any) -> None:
    assert_close(hessian(lambda a: (a * a * a).sum(), box(A)[0], **options), jnp.diag(6 * A))


def test_a_vjp_is_that_of_jax() -> None:
    outputs, pull = jax.vjp(two, A, B)
    cotangents = (V, jnp.asarray(2.0))
    assert_close(vjp(two, box(A, B), box(*cotangents)), (outputs, pull(cotangents)))


def test_a_jvp_is_that_of_jax() -> None:
    assert_close(jvp(two, box(A, B), box(V, W)), jax.jvp(two, (A, B), (V, W)))


@pytest.mark.parametrize("product", [vhp, hvp])
def test_a_product_with_the_hessian_is_that_of_jax(product: Any) -> None:
    gradient = jax.grad(scalar, argnums=(0, 1))
    expected = scalar(A, B), jax.jvp(gradient, (A, B), (V, W))[1]
    assert_close(product(scalar, box(A, B), box(V, W)), expected)


@pytest.mark.parametrize("product", [vjp, jvp, vhp, hvp])
def test_of_a_single_item_the_vector_may_be_left_out(product: Any) -> None:
    x = oplib.tensor([2.0])
    order = 2 if product in (vhp, hvp) else 1
    expected = {1: 12.0, 2: 12.0}[order]
    output, found = product(lambda a: (a * a * a).sum(), x)
    assert output.item() == 8.0
    assert found.tolist() == ([expected] if product is not jvp else expected)


# Complex tensors --------------------------------------------------------------------------------------------

Z = jnp.asarray([1 + 2j, 3 - 1j])


def test_complex_rows_are_gradients_and_columns_are_derivatives() -> None:
    derivative = np.diag(np.asarray(2 * Z * (1 + 1j)))
    (z,) = box(Z)
    for options in ({}, {"vectorize": True}):
        assert_close(jacobian(lambda a: a * a * (1 + 1j), z, **options), derivative.conj())
    columns = jacobian(lambda a: a * a * (1 + 1j), z, vectorize=True, strategy="forward-mode")
    assert_close(columns, derivative)


def test_a_complex_jvp_is_that_of_jax() -> None:
    expected = jax.jvp(lambda a: a * a * (1 + 1j), (Z,), (Z * 1j,))
    assert_close(jvp(lambda a: a * a * (1 + 1j), *box(Z, Z * 1j)), expected)


# The graph --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vectorize", [False, True])
def test_without_create_graph_results_have_no_history(vectorize: bool) -> None:
    (b,) = box(A, grad=True)
    found = jacobian(lambda a: a * a, b, vectorize=vectorize)
    assert not found.requires_grad
    assert not any(one.requires_grad for one in vjp(lambda a: (a * a).sum(), b))
    assert b.grad is None


@pytest.mark.parametrize("vectorize", [False, True])
def test_a_jacobian_with_create_graph_is_differentiable(vectorize: bool) -> None:
    (b,) = box(A, grad=True)
    jacobian(lambda a: a * a * a, b, create_graph=True, vectorize=vectorize).sum().backward()
    assert b.grad.tolist() == pytest.approx((6 * A).tolist())


@pytest.mark.parametrize("vectorize", [False, True])
def test_a_hessian_with_create_graph_is_differentiable(vectorize: bool) -> None:
    (b,) = box(A, grad=True)
    hessian(lambda a: (a * a * a).sum(), b, create_graph=True, vectorize=vectorize).sum().backward()
    assert b.grad.tolist() == pytest.approx([6.0, 6.0])


@pytest.mark.parametrize(
    ("product", "by_input"), [(vjp, 6 * A * V), (jvp, 6 * A * V), (vhp, 6 * V), (hvp, 6 * V)]
)
def test_a_product_with_create_graph_is_differentiable_by_inputs_and_vector(
    product: Any, by_input: Any
) -> None:
    (b, w) = box(A, V, grad=True)
    is_second = product in (vhp, hvp)
    _, found = product(lambda a: (a * a * a).sum() if is_second else a * a * a, b, w, create_graph=True)
    found.sum().backward()
    assert b.grad.tolist() == pytest.approx(by_input.tolist())
    assert w.grad.tolist() == pytest.approx((6 * A if is_second else 3 * A * A).tolist())


def test_a_captured_input_is_not_an_argument() -> None:
    (b,) = box(A, grad=True)
    assert_close(vjp(lambda a: a * b, b, box(V)[0])[1], A * V)


def test_derivatives_are_found_under_no_grad() -> None:
    with oplib.no_grad():
        assert_close(jacobian(lambda a: a * a, box(A)[0]), jnp.diag(2 * A))
        assert vjp(lambda a: a * a, box(A, grad=True)[0], box(V)[0], create_graph=True)[1].requires_grad


# Independent results ----------------------------------------------------------------------------------------


@ways
def test_what_is_independent_gives_zeros(options: Any) -> None:
    found = jacobian(lambda a, b: (b * 2, oplib.ones(3)), box(A, B), **options)
    expected = ((jnp.zeros(2), jnp.asarray(2.0)), (jnp.zeros((3, 2)), jnp.zeros(3)))
    assert_close(found, expected)


@ways
def test_a_tensor_without_items_has_an_empty_jacobian(options: Any) -> None:
    assert jacobian(lambda a: a * 2, oplib.zeros(0, 3), **options).shape == (0, 3, 0, 3)


@pytest.mark.parametrize("product", [vhp, hvp])
@pytest.mark.parametrize(
    "program", [lambda a: (a * 2).sum(), lambda a: oplib.tensor(1.0)], ids=["linear", "constant"]
)
def test_a_hessian_of_nothing_gives_zeros(product: Any, program: Any) -> None:
    assert product(program, *box(A, V))[1].tolist() == [0.0, 0.0]


STRICT: dict[str, Any] = {
    "Output 0 of the user-provided function does not require gradients": lambda b, w: vjp(
        lambda a: oplib.ones(2), b, w, strict=True
    ),
    "The output of the user-provided function is independent of input 1": lambda b, w: vjp(
        lambda a, c: a * 1, (b, b), w, strict=True
    ),
    "The jacobian of the user-provided function is independent of input 0": lambda b, w: vjp(
        lambda a: a * 2, b.requires_grad_(), w, strict=True, create_graph=True
    ),
    "The gradient with respect to input 1 is independent of the inputs|independent of input 1": lambda b, w: (
        jvp(lambda a, c: a * 1, (b, b), (w, w), strict=True)
    ),
    "Output 0 of the user-provided function is independent of input 1": lambda b, w: jacobian(
        lambda a, c: (a * 1, c * 1), (b, b), strict=True
    ),
    "hessian: While computing the hessian, found that the jacobian": lambda b, w: hessian(
        lambda a: (a * 2).sum(), b, strict=True
    ),
    "vhp: While computing the hessian, found that the jacobian": lambda b, w: vhp(
        lambda a: (a * 2).sum(), b, w, strict=True
    ),
    "hvp: While computing the hessian, found that the jacobian": lambda b, w: hvp(
        lambda a: (a * 2).sum(), b, w, strict=True
    ),
    "vhp: The hessian of the user-provided function is independent of input 0": lambda b, w: vhp(
        lambda a: (a * a).sum(), b.requires_grad_(), w, strict=True, create_graph=True
    ),
}


@pytest.mark.parametrize("text", STRICT)
def test_strict_refuses_what_is_independent(text: str) -> None:
    with pytest.raises(AutogradError, match=f"{text}.*strict mode"):
        STRICT[text](*box(A, V))


# Refused arguments ------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[type, Any]] = {
    "given inputs has type list": (GradientTypeError, lambda b: jacobian(lambda a: a, [b])),
    "value at index 1 has type float": (GradientTypeError, lambda b: vjp(lambda a, c: a, (b, 1.0))),
    "given outputs of the user-provided function has type list": (
        GradientTypeError,
        lambda b: jacobian(lambda a: [a], b),
    ),
    "given v has type int": (GradientTypeError, lambda b: jvp(lambda a: a, b, 1)),
    "can only be None if what the user-provided function returns": (
        AutogradError,
        lambda b: vjp(lambda a: a, b),
    ),
    "can only be None if the input": (AutogradError, lambda b: jvp(lambda a: a, b)),
    "the given v should contain a single Tensor. Got 2": (
        AutogradError,
        lambda b: vjp(lambda a: a, b, (b, b)),
    ),
    "invalid length: should be 2 but got 1": (AutogradError, lambda b: vjp(lambda a: (a, a), b, b)),
    r"v has invalid size: should be \[2\] but got \[3\]": (
        AutogradError,
        lambda b: vjp(lambda a: a, b, oplib.ones(3)),
    ),
    r"entry 1 in v has invalid size": (
        AutogradError,
        lambda b: jvp(lambda a, c: a, (b, b), (b, oplib.ones(3))),
    ),
    "hessian should return a single Tensor. Got a tuple": (
        AutogradError,
        lambda b: hessian(lambda a: (a.sum(),), b),
    ),
    r"hvp should contain a single element. Got size \[2\]": (AutogradError, lambda b: hvp(lambda a: a, b, b)),
    "jacobian: expected strategy to be either": (
        StrategyError,
        lambda b: jacobian(lambda a: a, b, strategy="up"),
    ),
    "hessian: expected strategy to be either": (
        StrategyError,
        lambda b: hessian(lambda a: a.sum(), b, outer_jacobian_strategy="up"),
    ),
    "forward mode is only implemented for vectorize=True": (
        MissingRuleError,
        lambda b: jacobian(lambda a: a, b, strategy="forward-mode"),
    ),
    "create_graph=True and strategy": (
        MissingRuleError,
        lambda b: jacobian(lambda a: a, b, create_graph=True, vectorize=True, strategy="forward-mode"),
    ),
    "strict=True and vectorize=True": (
        AutogradError,
        lambda b: jacobian(lambda a: a, b, strict=True, vectorize=True),
    ),
    "strict=True and strategy": (
        AutogradError,
        lambda b: jacobian(lambda a: a, b, strict=True, vectorize=True, strategy="forward-mode"),
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_does_not_fit_is_refused(text: str) -> None:
    kind, call = REFUSED[text]
    with pytest.raises(kind, match=text):
        call(box(A)[0])


def test_a_failure_in_forward_mode_closes_the_level() -> None:
    def fail(a: Any) -> Any:
        raise KeyError

    with pytest.raises(KeyError):
        jacobian(fail, box(A)[0], vectorize=True, strategy="forward-mode")
    assert oplib.autograd.forward_ad.unpack_dual(box(A)[0]).tangent is None


# Under a trace ----------------------------------------------------------------------------------------------


def test_everything_works_inside_jit() -> None:
    def derive(a: Any, b: Any, w: Any) -> Any:
        x, y, v = box(a, b, w)
        found = (
            *jacobian(two, (x, y))[1],
            *jacobian(two, (x, y), vectorize=True)[1],
            *jacobian(two, (x, y), vectorize=True, strategy="forward-mode")[1],
            hvp(lambda t: (t * t * t).sum(), x, v)[1],
            hessian(lambda t: (t * t * t).sum(), x, vectorize=True, outer_jacobian_strategy="forward-mode"),
        )
        return [one.array for one in found]

    second = jax.jacobian(two, argnums=(0, 1))(A, B)[1]
    expected = [*second, *second, *second, 6 * A * V, jnp.diag(6 * A)]
    for found, its in zip(jax.jit(derive)(A, B, V), expected, strict=True):
        np.testing.assert_allclose(found, its, rtol=2e-5, atol=2e-5)


@ways
def test_a_jacobian_can_be_mapped(options: Any) -> None:
    rows = oplib.Tensor.from_array(jnp.stack([A, V]))
    found = oplib.vmap(lambda a: jacobian(lambda b: b * b, a, **options))(rows)
    assert_close(found, jnp.stack([jnp.diag(2 * A), jnp.diag(2 * V)]))


@pytest.mark.usefixtures("forget_ops")
def test_a_registered_op_is_differentiated_by_its_own_rules() -> None:
    def square(x: jax.Array) -> jax.Array:
        return x * x

    op = oplib.custom_op("functional::square", square)
    op.register_autograd(
        lambda ctx, grad: 14 * grad * ctx.saved_tensors[0],
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    for options in WAYS.values():
        assert_close(jacobian(op, box(A)[0], **options), jnp.diag(14 * A))


@pytest.mark.devices(2)
@pytest.mark.parametrize("options", [{}, {"vectorize": True}, {"create_graph": True}], ids=str)
@pytest.mark.parametrize("axis", ["a", None])
def test_a_tensor_on_an_explicit_mesh_needs_no_context_of_the_mesh(axis: Any, options: Any) -> None:
    mesh = jax.make_mesh((jax.device_count(),), ("a",), axis_types=(jax.sharding.AxisType.Explicit,))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(axis))
    array = np.arange(1.0, 1.0 + 2 * jax.device_count(), dtype=np.float32)
    x = oplib.tensor(jax.device_put(array, sharding))
    rows = jacobian(lambda x: x * x + oplib.flip(x, (0,)).detach(), x, **options).detach().numpy()
    np.testing.assert_array_equal(rows, np.diag(2 * array))
    if "create_graph" not in options:
        second = hessian(lambda x: (x**3).sum(), x, **options).numpy()
        np.testing.assert_allclose(second, np.diag(6 * array), rtol=1e-6)


@pytest.mark.parametrize("vectorize", [False, True])
def test_results_lie_on_the_device_of_the_input(vectorize: bool) -> None:
    device = jax.devices()[1]
    x = oplib.Tensor.from_array(jax.device_put(V, device))
    for made in (
        jacobian(lambda x: x.sum(), x, vectorize=vectorize),
        jacobian(lambda x: x * 2, x, vectorize=vectorize),
        jacobian(lambda x: oplib.ones(2), x, vectorize=vectorize),
        hessian(lambda x: x.sum(), x, vectorize=vectorize),
    ):
        assert made.array.devices() == {device}


@pytest.mark.parametrize("vectorize", [False, True])
def test_complex_outputs_of_real_inputs_need_forward_mode(vectorize: bool) -> None:
    def turn(x: Any) -> Any:
        return x * 0.5j

    x = oplib.tensor([1.0, 2.0])
    with pytest.raises(AutogradError, match="reverse mode has no Jacobian of complex outputs by real inputs"):
        jacobian(turn, x, vectorize=vectorize)
    with pytest.raises(AutogradError, match="outer_jacobian_strategy"):
        hessian(lambda x, z: (x * z.abs()).sum(), (x, x + 1j), vectorize=vectorize)
    expected = jax.jacfwd(lambda a: a * 0.5j)(x.array)
    found = jacobian(turn, x, vectorize=True, strategy="forward-mode")
    np.testing.assert_allclose(found.numpy(), expected)
    parts = jacobian(lambda x: oplib.view_as_real(turn(x)), x, vectorize=vectorize)
    np.testing.assert_allclose(parts.numpy()[:, 1], expected.imag)


@pytest.mark.parametrize("function", [jacobian, hessian, vjp, jvp, vhp, hvp])
def test_options_have_the_defaults_of_torch(function: Any) -> None:
    """As in torch, nothing is recorded, and what does not depend on an input has zeros."""
    defaults: dict[str, Any] = {"create_graph": False, "strict": False}
    if function in (vjp, jvp, vhp, hvp):
        defaults |= {"v": None}
    elif function is jacobian:
        defaults |= {"vectorize": False, "strategy": "reverse-mode"}
    else:
        defaults |= {"vectorize": False, "outer_jacobian_strategy": "reverse-mode"}
    parameters = inspect.signature(function).parameters
    found = {name: one.default for name, one in parameters.items() if one.default is not one.empty}
    assert found == defaults
