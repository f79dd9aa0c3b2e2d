"""Reading the numbers of a Tensor, and being told where that is impossible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib import bfloat16, view_as_real
from oplib.errors import ArgumentError, AutogradError, TracingError
from oplib.modes import modes
from oplib.tensor import Tensor, tensor, zeros
from oplib.tensor.views import Chain

READERS: dict[str, Callable[[Tensor], Any]] = {
    "numpy()": lambda x: x.numpy(),
    "numpy() ": np.asarray,
    "item()": lambda x: x.item(),
    "item() ": float,
    "item()  ": int,
    "tolist()": lambda x: x.tolist(),
    "bool()": bool,
    "__dlpack__": lambda x: x.__dlpack__(),
    "__dlpack_device__": lambda x: x.__dlpack_device__(),
}


@pytest.mark.parametrize("reader", READERS)
def test_reading_values_under_a_trace_raises_and_names_what_was_read(reader: str) -> None:
    for trace in (jax.jit, jax.grad, lambda f: lambda x: jax.vmap(f)(jnp.ones(2))):
        with pytest.raises(TracingError) as caught:
            trace(lambda a: (READERS[reader](Tensor.from_array(a)), a)[1])(1.0)
        text = str(caught.value)
        assert text.startswith(
            f"{reader.strip()}: a traced tensor has no values yet. Got f32[] at {__file__}:"
        )
        assert "oplib.where" in text


@pytest.mark.parametrize("reader", READERS)
def test_reading_a_tensor_from_outside_while_a_kernel_is_traced_raises(reader: str) -> None:
    outside = tensor(1.0)
    modes.tracing, modes.tracing_scope = "demo::op: the kernel", modes.tracing_scope + 1
    try:
        with pytest.raises(TracingError, match=r"demo::op: the kernel reads a Tensor from outside"):
            READERS[reader](outside)
    finally:
        modes.tracing = None


def test_numpy_gives_a_read_only_array() -> None:
    values = tensor([1.0, 2.0]).numpy()
    assert values.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        values[0] = 3


def test_a_tensor_that_requires_grad_is_not_converted_silently() -> None:
    x = tensor([1.0], requires_grad=True)
    cure = r"Can't call numpy\(\) on Tensor that requires grad.*f32\[1\]\. Use tensor\.detach\(\)\.numpy"
    with pytest.raises(AutogradError, match=cure):
        x.numpy()
    with pytest.raises(AutogradError, match=cure):
        np.asarray(x)
    assert x.numpy(force=True).tolist() == x.detach().numpy().tolist() == [1.0]


def test_numpy_sees_a_tensor_as_an_array() -> None:
    x = tensor([1.5, 2.5])
    assert np.asarray(x).dtype == np.float32
    assert np.array(x, dtype=np.float64).tolist() == [1.5, 2.5]
    copied = np.array(x)
    copied[0] = 7  # a copy is the caller's own
    assert x.tolist() == [1.5, 2.5]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool", "complex64"])
def test_numpy_round_trips_every_kind_of_dtype(dtype: str) -> None:
    x = zeros(3, dtype=dtype)
    assert tensor(x.numpy()).dtype == dtype


def test_jax_functions_refuse_a_tensor_that_requires_grad() -> None:
    x = tensor([1.0], requires_grad=True)
    for call in (jnp.asarray, jnp.sin, lambda x: x.__jax_array__()):
        with pytest.raises(AutogradError, match=r"Can't call a JAX function on Tensor .*tensor\.array"):
            call(x)


def test_jax_functions_take_a_tensor_without_history() -> None:
    np.testing.assert_allclose(jnp.sin(tensor([1.0])), np.sin([1.0]), rtol=1e-6)
    assert jnp.asarray(tensor([1.0])).tolist() == [1.0]


@pytest.mark.cpu
def test_dlpack_goes_out_to_numpy_and_torch() -> None:
    x = tensor([1.0, 2.0])
    assert np.from_dlpack(x).tolist() == [1.0, 2.0]
    torch = pytest.importorskip("torch")
    assert torch.from_dlpack(x).tolist() == [1.0, 2.0]
    with pytest.raises(BufferError, match=r"Can't export tensors that require gradient.*tensor\.detach"):
        np.from_dlpack(tensor([1.0], requires_grad=True))


@pytest.mark.parametrize(("data", "kind"), [(1, int), ([1.5], float), ([[True]], bool), (1j, complex)])
def test_item_is_a_python_number(data: Any, kind: type) -> None:
    value = tensor(data).item()
    assert type(value) is kind


@pytest.mark.parametrize("data", [[1.0, 2.0], []])
def test_item_needs_exactly_one(data: list[float]) -> None:
    count = len(data)
    message = rf"item\(\): a Tensor with {count} elements cannot be converted to Scalar\. Got f32\[{count}\]"
    for read in (Tensor.item, float, int, complex):
        with pytest.raises(ArgumentError, match=message):
            read(tensor(data))


def test_item_reads_through_requires_grad() -> None:
    assert tensor(2.0, requires_grad=True).item() == float(tensor(2.0, requires_grad=True)) == 2.0


@pytest.mark.cpu
@pytest.mark.parametrize("kind", ["float32", "int32", "complex64", "bool", "float16"])
def test_an_item_of_a_view_is_read_where_it_lies(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = (np.arange(24) % 7).astype(kind).reshape(2, 3, 4)
    x, where = tensor(values), (1, 2, 3)
    with monkeypatch.context() as patched:
        patched.setattr(Chain, "read", None)  # nothing is computed
        assert x[where].item() == values[where]
        assert x.permute(2, 0, 1)[3, 1, 0].item() == values[1, 0, 3]
        assert x[1:, ::2][0, 1, 1:2].item() == values[1, 2, 1]
        assert x.expand(5, 2, 3, 4)[4, 0, 1, 2].item() == values[0, 1, 2]
        assert x.diagonal(0, 1, 2)[1, 2].item() == values[1, 2, 2]
        assert x.unfold(2, 2, 1)[1, 2, 2, 1].item() == values[where]
    x[where].fill_(1 - values[where])
    assert x[where].item() == 1 - values[where]


@pytest.mark.parametrize(
    "take",
    [
        lambda x: x.flip(0)[1],
        lambda x: x.conj()[0],
        lambda x: view_as_real(x)[0, 1],
        lambda x: x.data[0],
        lambda x: x.to(bfloat16)[1],
    ],
)
@pytest.mark.filterwarnings("ignore:Casting complex")
def test_an_item_of_a_view_that_is_no_plain_part_is_computed(take: Callable[[Tensor], Tensor]) -> None:
    part = take(tensor([1 + 2j, 3 - 4j]))
    assert part.item() == part.clone().item()


@pytest.mark.parametrize("data", [1.5, [1, 2], [[True], [False]], []])
def test_tolist_gives_back_what_went_in(data: Any) -> None:
    assert tensor(data).tolist() == data


def test_truth_is_that_of_the_one_item() -> None:
    assert bool(tensor([[0.5]]))
    assert not tensor(0)
    with pytest.raises(ArgumentError, match=r"Boolean value of Tensor with more than one value .*f32\[2\]"):
        bool(zeros(2))
    with pytest.raises(ArgumentError, match="Boolean value of Tensor with no values is ambiguous"):
        bool(zeros(0))


def test_numbers_convert_as_python_does() -> None:
    assert int(tensor(2.7)) == 2
    assert float(tensor([3])) == 3.0
    assert complex(tensor(2.0)) == 2 + 0j


def test_only_an_integer_is_an_index() -> None:
    assert "abc"[tensor(1)] == "abc"[tensor(True)] == "b"
    for bad in (tensor(1.0), tensor([1, 2])):
        with pytest.raises(TypeError, match="only integer tensors of a single element can be"):
            "abc"[bad]


def test_a_format_is_that_of_the_one_number() -> None:
    assert f"{tensor(1.25):.1f}" == "1.2"
    assert f"{tensor([1.0, 2.0])}" == "tensor([1., 2.])"
    with pytest.raises(TypeError, match=r"unsupported format string.*'.3f' for f32\[2\]"):
        format(tensor([1.0, 2.0]), ".3f")
