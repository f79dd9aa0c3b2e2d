"""Records of ops: what was registered makes one record, in which the newest of each rule is in force."""

import jax
import numpy as np
import pytest

import oplib
from oplib.errors import RegistrationError
from oplib.library import Library, _scoped_library, custom_op


def double_array(x: jax.Array) -> jax.Array:
    SEEN.append(x)
    return x * 2


def double_on_host(x: np.ndarray) -> np.ndarray:
    SEEN.append(x)
    return x * 2


def double_tensor(x: oplib.Tensor) -> oplib.Tensor:
    SEEN.append(x)
    return x * 2


KERNELS = {"array": double_array, "host": double_on_host, "tensor": double_tensor}
SEEN = []
SCHEMA = "(Tensor x) -> Tensor"


def define(library, name):
    library.define(f"{name}{SCHEMA}")
    return getattr(oplib.ops.recorded, name)


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.usefixtures("forget_ops")
def test_the_first_kernel_says_what_the_kernels_of_a_defined_op_get(kind):
    library = Library("recorded", "FRAGMENT")
    op = define(library, f"doubled_{kind}")
    library.impl(f"doubled_{kind}", KERNELS[kind], "CPU")
    SEEN.clear()
    assert op(oplib.tensor([1.0, 2.0])).tolist() == [2.0, 4.0]
    expected = {"array": jax.Array, "host": np.ndarray, "tensor": oplib.Tensor}[kind]
    assert isinstance(SEEN[-1], expected)


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("kind", ["array", "host"])
def test_a_kernel_of_another_kind_is_refused(kind):
    other = KERNELS[{"array": "host", "host": "array"}[kind]]
    by_function = custom_op(f"recorded::own_{kind}", KERNELS[kind])
    with pytest.raises(RegistrationError, match="all kernels of an op have the kind of its first kernel"):
        by_function.register_kernel("cuda", other)
    library = Library("recorded", "FRAGMENT")
    define(library, f"defined_{kind}")
    library.impl(f"defined_{kind}", KERNELS[kind], "CPU")
    with pytest.raises(RegistrationError, match="all kernels of an op have the kind of its first kernel"):
        library.impl(f"defined_{kind}", other, "CUDA")


@pytest.mark.usefixtures("forget_ops")
def test_the_newest_kernel_is_in_force_until_its_library_ends():
    op = custom_op("recorded::shifted", lambda x: x + 1, schema=SCHEMA, compile=True)
    x = oplib.tensor([1.0])
    with _scoped_library("recorded", "IMPL") as library:
        library.impl("shifted", lambda x: x + 2, "CPU")
        assert op(x).tolist() == [3.0]
    assert op(x).tolist() == [2.0]
