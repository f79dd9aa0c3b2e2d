"""copy, deepcopy and pickle."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import numpy as np
import pytest

from oplib.errors import AutogradError, DtypeError, TracingError
from oplib.tensor import Tensor, tensor, zeros
from tests.tensor.nodes import make_result


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_copy_shares_the_storage_and_a_deep_copy_does_not(requires_grad: bool) -> None:
    x = tensor([1.0], requires_grad=requires_grad)
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    assert shallow._storage is x._storage
    assert deep._storage is not x._storage
    x._storage.write(zeros(1).array)
    assert (shallow.tolist(), deep.tolist()) == ([0.0], [1.0])
    assert (shallow._version, deep._version) == (1, 0)
    assert shallow.requires_grad == deep.requires_grad == requires_grad


def test_a_deep_copy_keeps_gradient_attributes_and_sharing() -> None:
    x = tensor([1.0], requires_grad=True)
    x.grad = tensor([5.0])
    x.note = ["mine"]  # type: ignore[attr-defined]
    first, second, alias = copy.deepcopy([x, x, x.detach()])
    assert first is second
    assert alias._storage is first._storage
    assert first.grad.tolist() == [5.0]
    assert first.grad is not x.grad
    assert first.note == ["mine"]
    assert first.note is not x.note  # type: ignore[attr-defined]


def test_only_leaves_can_be_deep_copied() -> None:
    with pytest.raises(AutogradError, match=r"Only Tensors created explicitly .*the result of MulBack"):
        copy.deepcopy(make_result())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int8", "complex64"])
def test_a_pickle_keeps_values_and_dtype(dtype: str) -> None:
    x = tensor([0, 1, 1], dtype=dtype)
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype == dtype
    assert y.tolist() == x.tolist()
    assert y._trace == x._trace


def test_a_pickle_keeps_the_flag_and_attributes_but_no_gradient_as_in_torch() -> None:
    x = tensor([1.0], requires_grad=True)
    x.grad = tensor([5.0])
    x.register_hook(lambda grad: grad)
    x.note = "mine"  # type: ignore[attr-defined]
    y = pickle.loads(pickle.dumps(x))
    assert y.requires_grad
    assert y.grad is None
    assert y._backward_hooks is None
    assert y.note == "mine"


def test_a_pickle_of_a_result_is_a_leaf_as_in_torch() -> None:
    for made in (pickle.loads(pickle.dumps(make_result())), copy.copy(make_result())):
        assert made.is_leaf
        assert made.requires_grad


def test_a_pickle_keeps_what_shares_a_storage_together() -> None:
    x = tensor([1.0])
    y, alias = pickle.loads(pickle.dumps((x, x.detach())))
    assert y._storage is alias._storage


def test_a_pickle_names_no_private_module_of_jax() -> None:
    assert b"_src" not in pickle.dumps(tensor([1.0], requires_grad=True))


def test_a_pickle_of_64_bits_is_not_narrowed_silently() -> None:
    with jax.enable_x64(True):
        data = pickle.dumps(tensor(np.ones(2)))
    with pytest.raises(DtypeError, match="a float64 array while JAX's x64 is off"):
        pickle.loads(data)


def test_a_traced_tensor_cannot_be_pickled() -> None:
    def dump(array: Any) -> Any:
        pickle.dumps(Tensor.from_array(array))

    with pytest.raises(TracingError, match=r"pickle: a traced tensor has no values yet\. Got f32\[\]"):
        jax.jit(dump)(1.0)


@pytest.mark.parametrize("requires_grad", [True, False])
def test_a_view_whose_root_was_written_is_copied(requires_grad: bool) -> None:
    root = zeros(4, 3).requires_grad_(requires_grad) * 1.0
    view = root[1:3]
    root.add_(tensor([1.0, 2.0, 3.0], requires_grad=True))  # now the history of the view is an old one
    copied = copy.copy(view)
    assert type(copied) is Tensor
    assert copied.is_leaf
    assert copied.requires_grad
    assert (copied.detach().numpy() == [1.0, 2.0, 3.0]).all()
    assert type(pickle.loads(pickle.dumps(view))) is Tensor
