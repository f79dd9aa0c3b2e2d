"""Surrogate gradients: the formula is not the kernel's derivative. Checks with nothing to check say so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import forward_ad, gradcheck, gradgradcheck
from oplib.errors import GradcheckError, OpCheckError, RegistrationValueError
from oplib.library import CustomOpDef, custom_op, opcheck, register_autograd
from oplib.library.registration.registry import registry

X = jnp.array([0.3, 1.6])

pytestmark = pytest.mark.spec("D.39")


@pytest.fixture(autouse=True)
def keep_registry() -> Iterator[None]:
    before = registry.save()
    yield
    registry.restore(before)


def make(kind: str = "array", formula: Any = None, **options: Any) -> CustomOpDef:
    """A step whose gradient is that of a sigmoid."""

    def on_arrays(x: jax.Array) -> jax.Array:
        return (x > 0.5).astype(x.dtype)

    def on_tensors(x: oplib.Tensor) -> oplib.Tensor:
        return (x > 0.5).to(x.dtype)

    def on_host(x: np.ndarray) -> np.ndarray:
        return (x > 0.5).astype(x.dtype)

    def of_sigmoid(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        y = x.sigmoid() if kind == "tensor" else jax.nn.sigmoid(x)
        return g * y * (1 - y)

    kernels: dict[str, Any] = {"array": on_arrays, "tensor": on_tensors, "host": on_host}
    op = custom_op(f"surrogates::step_{kind}", kernels[kind])
    op.register_fake(lambda x: jnp.zeros(x.shape, x.dtype))
    op.register_autograd(
        formula or of_sigmoid,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        **{"surrogate": True, **options},
    )
    return op


def slope(x: Any) -> Any:
    return jax.nn.sigmoid(x) * (1 - jax.nn.sigmoid(x))


def leaf() -> oplib.Tensor:
    return oplib.tensor([0.3, 1.6], requires_grad=True)


KINDS = ["array", "tensor", "host"]


class TestOpcheck:
    @pytest.mark.parametrize("kind", KINDS)
    def test_it_skips_the_comparison_with_differences_and_says_so(self, kind: str) -> None:
        found = opcheck(make(kind), (leaf(),))
        skipped = {name for name, result in found.items() if result != "SUCCESS"}
        assert skipped == {"test_gradients", "test_second_gradients"}
        for name in skipped:
            assert found[name] == (
                "SKIPPED: the formula is declared a surrogate, so it is not compared with finite differences"
            )

    def test_without_the_declaration_it_fails(self) -> None:
        with pytest.raises(OpCheckError, match="test_gradients failed"):
            opcheck(make(surrogate=False), (leaf(),))

    def test_the_rest_of_the_gradients_is_checked(self) -> None:
        count = iter(range(1000))
        op = make("tensor", lambda ctx, g: g * next(count))
        with pytest.raises(OpCheckError, match=r"test_gradients failed with .*(repeat|reentrant|differ)"):
            opcheck(op, (leaf(),), test_utils="test_gradients")

    def test_forward_mode_is_compared_with_the_formula(self) -> None:
        op = make()
        op.register_jvp(lambda p, t: ((p[0] > 0.5).astype(p[0].dtype), 3 * t[0]))
        with pytest.raises(OpCheckError, match="forward mode and the backward contradict each other"):
            opcheck(op, (leaf(),), test_utils="test_forward_mode")

    def test_a_jvp_rule_like_the_formula_passes(self) -> None:
        op = make()
        op.register_jvp(lambda p, t: ((p[0] > 0.5).astype(p[0].dtype), slope(p[0]) * t[0]))
        assert opcheck(op, (leaf(),), test_utils="test_forward_mode") == {"test_forward_mode": "SUCCESS"}

    def test_its_forward_is_compared_with_the_kernel(self) -> None:
        op = make()

        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        op.register_autograd(lambda ctx, g: g, forward=forward, surrogate=True)
        with pytest.raises(OpCheckError, match="by forward="):
            opcheck(op, (leaf(),), test_utils="test_gradients")


class TestDerivatives:
    @pytest.mark.parametrize("kind", KINDS)
    def test_forward_mode_is_derived_from_the_formula(self, kind: str) -> None:
        op = make(kind)
        tangent = jax.jvp(op.arrays if kind == "tensor" else op, (X,), (X,))[1]
        np.testing.assert_allclose(tangent, slope(X) * X, rtol=1e-6)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(oplib.Tensor.from_array(X), oplib.Tensor.from_array(X))
            pushed = forward_ad.unpack_dual(op(dual)).tangent
        assert pushed is not None
        np.testing.assert_allclose(pushed.array, slope(X) * X, rtol=1e-6)

    def test_a_linear_transposition_of_both_is_the_identity_of_the_formula(self) -> None:
        op = make()
        np.testing.assert_allclose(jax.jacfwd(op)(X), jax.jacrev(op)(X), rtol=1e-6)
        np.testing.assert_allclose(np.diag(jax.jacfwd(op)(X)), slope(X), rtol=1e-6)


class TestGradcheck:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("fast", [False, True])
    def test_it_skips_the_comparison_and_warns(self, kind: str, fast: bool) -> None:
        op = make(kind)
        with pytest.warns(
            UserWarning, match=f"not compared with finite differences. surrogates::step_{kind}"
        ):
            assert gradcheck(lambda x: op(x.sin()) * x, leaf(), fast_mode=fast, check_forward_ad=True)

    def test_it_compares_the_modes_with_each_other(self) -> None:
        op = make()
        op.register_jvp(lambda p, t: ((p[0] > 0.5).astype(p[0].dtype), 3 * t[0]))
        with (
            pytest.warns(UserWarning, match="not compared"),
            pytest.raises(GradcheckError, match="mismatch"),
        ):
            gradcheck(op, leaf(), check_forward_ad=True)

    def test_a_function_without_such_an_op_is_compared(self) -> None:
        with pytest.raises(GradcheckError, match="mismatch"):
            gradcheck(make(surrogate=False), leaf())

    def test_the_derivative_of_the_formula_is_compared(self) -> None:
        assert gradgradcheck(make(), leaf())


class TestRegistration:
    def test_it_belongs_to_a_formula(self) -> None:
        make()
        for given in ({"backward": "derive"}, {"constant": "because it is a step"}):
            backward = given.pop("backward", None)
            with pytest.raises(RegistrationValueError, match="surrogate and linear belong to a formula"):
                register_autograd("surrogates::step_array", backward, surrogate=True, **given)


class TestSkipped:
    def test_an_op_without_a_derivative(self) -> None:
        @custom_op("surrogates::none")
        def none(x: jax.Array) -> jax.Array:
            return jnp.sin(x)

        found = opcheck(none, (X,))
        for name in ("test_gradients", "test_forward_mode", "test_second_gradients"):
            assert found[name] == "SKIPPED: no derivative is registered"
        assert found["test_vmap"] == "SUCCESS"

    def test_a_constant_one(self) -> None:
        op = make()
        op.register_autograd(constant="it is a step")
        found = opcheck(op, (X,), test_utils=["test_gradients", "test_forward_mode"])
        assert set(found.values()) == {"SKIPPED: the derivative is zero, because it is a step"}

    def test_arguments_that_require_no_grad(self) -> None:
        found = opcheck(oplib.ops.oplib.sin.default, (oplib.tensor([1.0]),), test_utils="test_gradients")
        assert found["test_gradients"] == "SKIPPED: no argument requires grad"

    def test_a_formula_that_is_declared_nonlinear(self) -> None:
        op = make(surrogate=False, nonlinear=True)
        found = opcheck(op, (X,), test_utils=["test_gradients", "test_forward_mode", "test_second_gradients"])
        assert all("declared nonlinear" in str(result) for result in found.values())

    def test_no_array_to_map(self) -> None:
        @custom_op("surrogates::make")
        def make_zeros(n: int) -> jax.Array:
            return jnp.zeros(n)

        assert opcheck(make_zeros, (3,), test_utils="test_vmap") == {
            "test_vmap": "SKIPPED: there is no array to map over"
        }

    def test_a_kernel_that_reads_values(self) -> None:
        @custom_op("surrogates::reads")
        def reads(x: oplib.Tensor) -> oplib.Tensor:
            return oplib.tensor(float(x.sum().item()))

        reads.register_fake(lambda x: oplib.zeros(()))
        found = opcheck(reads, (oplib.tensor([1.0]),), test_utils="test_aot_dispatch_dynamic")
        assert found["test_aot_dispatch_dynamic"] == (
            "SKIPPED: the kernel reads values, so it has no compiled run"
        )


class TestFunctions:
    def test_a_function_of_one_op_is_checked_as_the_op(self) -> None:
        x = leaf()
        assert opcheck(oplib.sin, (x,)) == opcheck(oplib.ops.oplib.sin.default, (x,))
        assert set(opcheck(oplib.sin, (X,)).values()) == {"SUCCESS"}

    def test_the_overload_is_the_one_that_the_arguments_choose(self) -> None:
        x = leaf()
        assert set(opcheck(oplib.add, (x, x)).values()) == {"SUCCESS"}
        assert set(opcheck(oplib.mul, (x, 3.0)).values()) == {"SUCCESS"}
        assert set(opcheck(oplib.sum, (x,), {"dim": 0}).values()) == {"SUCCESS"}

    def test_a_function_of_the_user_is_refused(self) -> None:
        with pytest.raises(RegistrationValueError, match="must be an instance of OpOverload"):
            opcheck(lambda x: oplib.sin(x), (leaf(),))

    def test_a_function_of_several_ops_is_refused_with_their_names(self) -> None:
        def both(x: oplib.Tensor) -> oplib.Tensor:
            return oplib.cos(oplib.sin(x))

        both.__module__ = "oplib"  # as a function that is made of several ops
        with pytest.raises(
            RegistrationValueError, match=r"opcheck\(both, ...\): it checks one op.*sin.*cos.*gradcheck"
        ):
            opcheck(both, (leaf(),))
