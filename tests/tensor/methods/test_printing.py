"""What a Tensor looks like: torch's layout."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst
from jax.sharding import NamedSharding, PartitionSpec

from oplib.autograd import no_grad
from oplib.tensor import Tensor, ones, tensor, zeros
from oplib.tensor.dtypes import names as dtypes
from tests.tensor.nodes import make_result

WIDE = "tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n        1.9990e+03])"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([1.0, 2.0], "tensor([1., 2.])"),
        (3.0, "tensor(3.)"),
        ([1.5, -2.0], "tensor([ 1.5000, -2.0000])"),
        ([1e-8, 1.0], "tensor([1.0000e-08, 1.0000e+00])"),
        ([float("nan"), float("inf"), 1.0], "tensor([nan, inf, 1.])"),
        ([1, -20], "tensor([  1, -20])"),
        ([True, False], "tensor([ True, False])"),
        ([1.5 + 2j, -1.5j], "tensor([1.5000+2.0000j, -0.0000-1.5000j])"),
        ([], "tensor([])"),
        ([[1.0], [2.0]], "tensor([[1.],\n        [2.]])"),
        (np.zeros((2, 0), np.float32), "tensor([], size=(2, 0))"),
        (np.zeros((1, 1, 2), np.int32), "tensor([[[0, 0]]])"),
        (np.ones(2, np.float16), "tensor([1., 1.], dtype=oplib.float16)"),
        (np.zeros(0, np.int8), "tensor([], dtype=oplib.int8)"),
        (np.arange(2000, dtype=np.float32), WIDE),
    ],
)
def test_values_are_shown_as_in_torch(data: Any, text: str) -> None:
    assert repr(tensor(data)) == str(tensor(data)) == text


@given(
    npst.arrays(
        st.sampled_from([np.float32, np.int32, np.bool_, np.float16, np.complex64, np.uint8]),
        npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=11),
    )
)
def test_any_tensor_is_shown_as_in_torch(values: np.ndarray[Any, Any]) -> None:
    torch = pytest.importorskip("torch")
    theirs = repr(torch.from_numpy(values.copy())).replace("dtype=torch.", "dtype=oplib.")
    if values.dtype == np.int32:  # the default here, while x64 is off
        theirs = theirs.replace(", dtype=oplib.int32", "").replace(",\n       dtype=oplib.int32", "")
    if values.size:
        assert repr(tensor(values)) == theirs


@pytest.mark.parametrize("shape", [(1001,), (40, 30), (7, 20, 10), (2, 2, 300), (1100, 1)])
def test_large_tensors_are_shown_by_their_edges_as_in_torch(shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    assert repr(tensor(values)) == repr(torch.from_numpy(values))


def test_a_leaf_shows_that_it_requires_grad_and_a_result_its_node() -> None:
    x = tensor([1.0], requires_grad=True)
    assert repr(x) == "tensor([1.], requires_grad=True)"
    assert repr(make_result()) == "tensor([0., 0.], grad_fn=<MulBackward0>)"


def test_a_suffix_that_would_be_cut_off_starts_a_line() -> None:
    assert repr(zeros(17, dtype=dtypes.float16, requires_grad=True)) == (
        "tensor([0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0., 0.],\n"
        "       dtype=oplib.float16, requires_grad=True)"
    )


def test_a_tracer_shows_its_dtype_and_shape() -> None:
    shown: list[str] = []
    jax.jit(lambda a: (shown.append(repr(Tensor.from_array(a))), a)[1])(jnp.ones((2, 3)))
    assert shown == ["tensor(f32[2,3], traced)"]


@pytest.mark.devices(2)
def test_another_device_and_a_sharding_are_shown() -> None:
    assert repr(zeros(1, device=jax.devices()[1])) == f"tensor([0.], device='{jax.devices()[1].platform}:1')"
    sharding = NamedSharding(jax.make_mesh((2,), ("x",)), PartitionSpec("x"))
    x = Tensor.from_array(jax.device_put(jnp.zeros(2), sharding))
    assert repr(x) == "tensor([0., 0.], sharding=P('x',))"


def test_a_view_whose_history_cannot_be_read_is_printed_as_in_torch():
    weight = ones(2, 2, requires_grad=True)
    with no_grad():
        row = weight[0]
        row.mul_(2)
    assert repr(row) == "tensor([2., 2.], grad_fn=<Invalid>)"
    assert row.tolist() == [2.0, 2.0]
