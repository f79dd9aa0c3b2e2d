"""register_kernel and get_kernel: devices, names and lifetimes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.errors import MissingRuleError, RegistrationError, RegistrationValueError, UnknownOperatorError
from oplib.library import Library, custom_op, define, get_kernel, ops, register_kernel
from tests.library.sample_kernels import add_one, add_two

X = jnp.zeros(2)


@pytest.fixture
def op():
    return custom_op("ker::f", add_one)


class TestRegisterKernel:
    def test_a_device_kernel_goes_before_the_default(self, op):
        op.register_kernel("cpu", add_two)
        assert op(X)[0] == 2

    def test_none_replaces_the_default_and_device_kernels_still_win(self, op):
        op.register_kernel("cpu", add_two)
        op.register_kernel(None, lambda x: x + 3)
        assert op(X)[0] == 2
        with op.set_kernel_enabled("cpu", False):
            assert op(X)[0] == 1

    def test_it_gives_the_function_in_both_forms(self, op):
        assert op.register_kernel("cpu", add_two) is add_two
        assert op.register_kernel("cpu")(add_two) is add_two
        assert register_kernel("ker::f", "cpu", add_two) is add_two
        assert register_kernel("ker::f", "cpu")(add_two) is add_two

    def test_several_devices_at_once(self, op):
        op.register_kernel(["cpu", "gpu", "tpu"], add_two)
        assert set(op._opoverload.record.kernels) == {"default", "cpu", "gpu", "tpu"}

    @pytest.mark.parametrize("find", [lambda: "ker::f", lambda: "ker::f.default", lambda: ops.ker.f.default])
    def test_an_op_is_named_by_text_or_overload(self, op, find):
        register_kernel(find(), "cpu", add_two)
        assert op(X)[0] == 2

    def test_an_op_of_define_takes_kernels_too(self):
        define("ker::g", "(Tensor x) -> Tensor")
        register_kernel("ker::g", None, add_two)
        assert ops.ker.g(X)[0] == 2

    def test_the_annotations_of_a_composite_kernel_do_not_bind_the_others(self):
        lib = Library("ker", "FRAGMENT")
        lib.define("h(Tensor x) -> Tensor")
        lib.impl("h", add_one)
        lib.impl("h", lambda x: x + 2, "default")
        lib.impl("h", add_two, "CPU")
        assert ops.ker.h.default.record.kind == "array"
        lib._destroy()

    @pytest.mark.parametrize("find", [lambda: 3, lambda: ops.ker.f, lambda: None])
    def test_a_packet_or_something_else_is_refused(self, op, find):
        with pytest.raises(ValueError, match=r"register_kernel\(.*\): got unexpected type for op: "):
            register_kernel(find(), "cpu", add_two)

    def test_a_name_that_is_not_qualified_is_refused(self):
        with pytest.raises(RegistrationValueError, match='of the form "namespace::name"'):
            register_kernel("f", "cpu", add_two)

    def test_an_op_that_does_not_exist_is_an_error_with_the_nearest_name(self, op):
        with pytest.raises(
            UnknownOperatorError,
            match=r"register_kernel: the operator ker::ff does not exist\. The nearest .*ker::f",
        ):
            register_kernel("ker::ff", "cpu", add_two)

    def test_the_function_is_positional_only(self, op):
        with pytest.raises(TypeError, match=r"positional-only .*'func'"):
            op.register_kernel("cpu", func=add_two)

    def test_an_object_that_is_not_callable_is_refused(self, op):
        with pytest.raises(
            TypeError, match=r"register_kernel\(ker::f\): the kernel is required to be a callable"
        ):
            op.register_kernel("cpu", 3)

    def test_an_unknown_device_is_refused(self, op):
        with pytest.raises(RuntimeError, match="device type or dispatch key 'blub'"):
            op.register_kernel("blub", add_two)

    def test_an_op_without_tensors_needs_a_device_argument(self):
        op = custom_op("ker::g", lambda n: n, schema="(int n) -> int")
        with pytest.raises(ValueError, match="required to have a `device: Device` argument"):
            op.register_kernel("cpu", lambda n: n)
        op.register_kernel(None, lambda n: n + 1)
        assert op(1) == 2

    def test_the_kernel_ends_with_lib(self, op):
        library = Library("ker", "IMPL")
        register_kernel(op, None, add_two, lib=library)
        assert op(X)[0] == 2
        library._destroy()
        assert op(X)[0] == 1

    def test_a_library_of_another_namespace_is_refused(self, op):
        with pytest.raises(RegistrationError, match=r"\(ker\) does not match namespace of the library"):
            register_kernel(op, "cpu", add_two, lib=Library("other", "IMPL"))

    def test_a_kernel_of_another_kind_is_refused(self, op):
        def host(x: np.ndarray) -> np.ndarray:
            return x

        with pytest.raises(
            RuntimeError, match=r"ker::f: all kernels of an op have the kind of its first kernel"
        ):
            op.register_kernel("cpu", host)
        assert op(X)[0] == 1


class TestGetKernel:
    def test_it_gives_the_kernel_in_force(self, op):
        assert get_kernel("ker::f", "cpu")(1) == 2
        op.register_kernel("cpu", add_two)
        assert get_kernel(op, "cpu")(1) == 3
        assert get_kernel(ops.ker.f.default, "gpu")(1) == 2

    def test_it_finds_the_most_specific_one(self, op):
        op.register_kernel("gpu", add_two)
        assert [get_kernel(op, device)(1) for device in ("cuda", "rocm", "gpu", "tpu")] == [3, 3, 3, 2]
        op.register_kernel("cuda", lambda x: x + 3)
        assert [get_kernel(op, device)(1) for device in ("cuda", "rocm", "gpu", "tpu")] == [4, 3, 3, 2]

    def test_a_kernel_may_call_the_one_whose_place_it_takes(self, op):
        below = get_kernel(op, "cpu")
        library = Library("ker", "IMPL")

        @register_kernel(op, "cpu", lib=library)
        def above(x: jax.Array) -> jax.Array:
            return 10 * below(x)

        assert op(X)[0] == 10
        library._destroy()
        assert op(X)[0] == 1

    def test_a_handle_ends_with_its_library(self, op):
        library = Library("ker", "IMPL")
        register_kernel(op, "cpu", add_two, lib=library)
        handle = get_kernel(op, "cpu")
        assert "registered at" in repr(handle)
        library._destroy()
        with pytest.raises(
            RuntimeError,
            match=r"ker::f: this handle on its kernel has been invalidated.*test_kernel_registration\.py:\d+",
        ):
            handle(1)
        assert "invalidated" in repr(handle)

    def test_a_handle_ends_with_a_new_definition(self, op):
        handle = get_kernel(op, "cpu")
        with pytest.warns(UserWarning, match="ker::f: a second op of this name"):
            custom_op("ker::f", add_two)
        with pytest.raises(RuntimeError, match="has been invalidated"):
            handle(1)

    def test_an_unknown_device_is_a_value_error(self, op):
        with pytest.raises(ValueError, match="get_kernel: there is no device type"):
            get_kernel(op, "blub")

    def test_an_unknown_op_is_a_runtime_error(self):
        with pytest.raises(RuntimeError, match="operator ker::nothing does not exist"):
            get_kernel("ker::nothing", "cpu")

    def test_something_else_than_an_op_is_a_value_error(self, op):
        with pytest.raises(ValueError, match="unexpected type for op"):
            get_kernel(ops.ker.f, "cpu")

    def test_a_device_without_kernel_names_those_there_are(self):
        op = custom_op("ker::g", add_one, device_types="cpu")
        with pytest.raises(MissingRuleError, match=r"ker::g has no kernel for tpu\. Its kernels are for cpu"):
            get_kernel(op, "tpu")
