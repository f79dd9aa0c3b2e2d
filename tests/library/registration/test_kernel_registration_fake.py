"""register_fake, its old name, and eval_shape."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.errors import (
    RegistrationError,
    RegistrationValueError,
    UnknownOperatorError,
    UnsupportedRegistrationError,
)
from oplib.library import (
    Library,
    Tag,
    custom_op,
    define,
    eval_shape,
    get_ctx,
    impl_abstract,
    ops,
    register_fake,
)
from oplib.tensor import Tensor


def outer(x: jax.Array, y: jax.Array, *, scale: float = 1.0) -> jax.Array:
    return x[:, None] * y * scale


def outer_shape(x, y, *, scale):
    return jax.ShapeDtypeStruct((x.shape[0], y.shape[0]), x.dtype)


@pytest.fixture
def op():
    return custom_op("fak::f", outer)


def fake_of(op):
    return op._opoverload.record.fake


class TestRegisterFake:
    def test_it_gives_the_function_in_both_forms(self, op):
        assert op.register_fake(outer_shape) is outer_shape
        assert register_fake("fak::f")(outer_shape) is outer_shape
        assert fake_of(op) is outer_shape

    def test_the_last_one_counts(self, op):
        op.register_fake(lambda x, y, *, scale: x)
        op.register_fake(outer_shape)
        assert fake_of(op) is outer_shape

    def test_allow_override_names_the_line_of_the_first(self, op):
        op.register_fake(outer_shape)
        with pytest.raises(
            RuntimeError,
            match=r"fak::f already has a fake impl registered at \S*test_kernel_registration_fake\.py:\d+",
        ):
            register_fake(op, outer_shape, allow_override=False)

    def test_a_composite_op_needs_none_and_takes_none(self):
        library = Library("fak", "FRAGMENT")
        library.define("g(Tensor x) -> Tensor")
        library.impl("g", lambda x: x)
        with pytest.raises(
            RuntimeError, match="fak::g: a fake kernel would never run, because the op is composite"
        ):
            register_fake("fak::g", lambda x: x)
        assert ops.fak.g.default.record.fake is None

    @pytest.mark.parametrize(
        ("fake", "told"),
        [
            (lambda x: x, "too many positional"),
            (lambda x, y, z, *, scale: x, "missing a required argument: 'z'"),
            (lambda x, y: x, "unexpected keyword argument 'scale'"),
            (lambda x, y, *, size: x, "missing a required (keyword-only )?argument: 'size'"),
        ],
    )
    def test_one_that_takes_other_arguments_is_refused_at_registration(self, op, fake, told):
        with pytest.raises(
            RegistrationError, match=rf"fak::f: the fake kernel does not accept its arguments.*{told}"
        ):
            op.register_fake(fake)
        assert fake_of(op) is None

    @pytest.mark.parametrize(
        "fake",
        [lambda *args, **kwargs: args[0], lambda a, b, *, scale, more=1: a, lambda x, y, scale: x],
        ids=["anything", "other names", "keyword by name"],
    )
    def test_one_that_takes_them_under_other_names_is_fine(self, op, fake):
        op.register_fake(fake)
        assert fake_of(op) is fake

    def test_one_that_returns_another_number_of_results_is_refused(self, op):
        def two(x, y, *, scale) -> tuple[Tensor, Tensor]: ...

        with pytest.raises(
            RegistrationError,
            match=r"does not return what the op returns\. Got 2 by its annotation, expected 1",
        ):
            op.register_fake(two)

    def test_returns_without_annotation_are_taken_on_trust(self, op):
        op.register_fake(outer_shape)
        assert fake_of(op) is outer_shape

    def test_an_object_that_is_not_callable_is_refused(self, op):
        with pytest.raises(TypeError, match="the fake kernel is required to be a callable"):
            op.register_fake(3)

    def test_an_op_that_does_not_exist_is_a_runtime_error(self):
        with pytest.raises(RuntimeError, match="register_fake: the operator fak::nothing does not exist"):
            register_fake("fak::nothing", outer_shape)

    def test_a_packet_is_refused(self, op):
        with pytest.raises(RegistrationValueError, match="got unexpected type for op: OpOverloadPacket"):
            register_fake(ops.fak.f, outer_shape)

    def test_a_tagged_op_has_one_already_and_the_registered_one_is_used(self):
        op = custom_op(
            "fak::g",
            lambda x: x,
            schema="(Tensor(a!) x) -> Tensor(a!)",
            mutates_args=("x",),
            tags=Tag.inplace,
        )
        with pytest.warns(
            UserWarning, match=r"fak::g: The fake registration is unnecessary.*Tag\.inplace"
        ) as told:
            fake = op.register_fake(lambda x: x)
        assert told[0].filename == __file__
        assert fake_of(op) is fake

    def test_the_old_name_works_and_warns(self, op):
        with pytest.warns(FutureWarning, match="renamed to register_fake"):
            impl_abstract("fak::f", outer_shape)
        with pytest.warns(FutureWarning, match="renamed to register_fake") as told:

            @impl_abstract("fak::f")
            def fake(x, y, *, scale):
                return x

        assert told[0].filename == __file__
        assert fake_of(op) is fake

    def test_sizes_that_depend_on_data_are_refused(self):
        with pytest.raises(UnsupportedRegistrationError, match=r"new_dynamic_size.* XLA's shapes are static"):
            get_ctx().new_dynamic_size()


X = jax.ShapeDtypeStruct((2,), jnp.float32)
Y = jax.ShapeDtypeStruct((3,), jnp.float32)


class TestEvalShape:
    @pytest.mark.parametrize(
        "find", [lambda op: op, lambda op: "fak::f", lambda op: ops.fak.f.default, lambda op: ops.fak.f]
    )
    def test_the_op_may_be_named_in_any_way(self, op, find):
        op.register_fake(outer_shape)
        shape = eval_shape(find(op), X, Y, scale=2.0)
        assert (shape.shape, shape.dtype) == ((2, 3), jnp.float32)

    def test_without_a_fake_kernel_the_kernel_is_traced(self, op):
        assert eval_shape(op, X, Y).shape == (2, 3)

    def test_a_host_op_needs_a_fake_kernel(self):
        def host(x: np.ndarray) -> np.ndarray:
            return x

        with pytest.raises(NotImplementedError, match="register_fake"):
            eval_shape(custom_op("fak::g", host), X)

    def test_a_packet_of_several_overloads_is_refused(self):
        define("fak::g.a", "(Tensor x) -> Tensor")
        define("fak::g.b", "(Tensor x) -> Tensor")
        with pytest.raises(
            ValueError, match=r"eval_shape\(fak\.g\): the op has several overloads. They are a, b"
        ):
            eval_shape(ops.fak.g, X)

    def test_an_op_that_does_not_exist_is_an_attribute_error(self):
        with pytest.raises(
            UnknownOperatorError, match="eval_shape: the operator fak::nothing does not exist"
        ):
            eval_shape("fak::nothing", X)
