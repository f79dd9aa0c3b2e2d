"""The kind of kernel of a function."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import pytest

from oplib.errors import SchemaInferenceError
from oplib.library.infer_schema import infer_kind, infer_schema
from oplib.tensor import Tensor


class State(NamedTuple):
    value: jax.Array
    step: int


@dataclasses.dataclass
class HostState:
    value: np.ndarray


@dataclasses.dataclass
class Nested:
    inside: tuple[State, ...]
    again: Nested | None = None


def on_arrays(x: jax.Array, limit: float = 1.0) -> jax.Array: ...
def on_jnp(x: list[jnp.ndarray | None]) -> jnp.ndarray: ...
def on_host(x: npt.NDArray[np.float32] | None) -> np.ndarray: ...
def on_tensors(x: Tensor) -> Tensor: ...
def from_numbers(n: int) -> tuple[jax.Array, int]: ...
def without_arrays(n: int) -> int: ...
def on_classes(state: State, rest: list[Nested]) -> State: ...
def on_host_classes(n: int) -> HostState: ...
def on_arrays_beside_a_class(x: jax.Array, options: HostState) -> jax.Array: ...
def mixed_classes(state: State) -> HostState: ...
def without_hints(x, y=2): ...
def mixed(x: jax.Array, y: list[np.ndarray]) -> jax.Array: ...
def mixed_return(x: jax.Array) -> Tensor: ...
def unknown(x: Missing) -> Tensor: ...  # noqa: F821  pyright: ignore[reportUndefinedVariable]


@pytest.mark.parametrize(
    ("fn", "kind"),
    [
        (on_arrays, "array"),
        (on_jnp, "array"),
        (on_host, "host"),
        (on_tensors, "tensor"),
        (from_numbers, "array"),
        (on_classes, "array"),
        (on_host_classes, "host"),
        (on_arrays_beside_a_class, "array"),
        (without_arrays, None),
        (without_hints, None),
        (lambda x: x, None),
        (dict.fromkeys, None),
        (min, None),
    ],
)
def test_annotations_say_the_kind(fn, kind):
    assert infer_kind(fn) == kind


def test_array_like_is_a_tensor_of_a_kernel_on_arrays():
    def scale(x: jax.typing.ArrayLike, w: jax.typing.ArrayLike | None = None) -> jax.Array: ...

    assert infer_kind(scale) == "array"
    assert infer_schema(scale, mutates_args=()) == "(Tensor x, Tensor? w=None) -> Tensor"


def test_jaxtyping_hints_say_the_kind_of_their_arrays():
    jaxtyping = pytest.importorskip("jaxtyping")

    def fn(x):
        return x

    for array_type, kind in ((jax.Array, "array"), (np.ndarray, "host"), (Tensor, "tensor")):
        fn.__annotations__ = {"x": jaxtyping.Float[array_type, "n"]}
        assert infer_kind(fn) == kind


def test_two_kinds_in_one_signature_are_refused_with_both_names():
    with pytest.raises(
        SchemaInferenceError, match=r"Parameter x is annotated jax.Array, Parameter y numpy.ndarray"
    ):
        infer_kind(mixed)
    with pytest.raises(SchemaInferenceError, match=r"Parameter x is annotated jax.Array, the return Tensor"):
        infer_schema(mixed_return)
    with pytest.raises(SchemaInferenceError, match=r"state is annotated jax.Array, the return numpy.ndarray"):
        infer_schema(mixed_classes)


def test_a_hint_that_cannot_be_read_is_no_absent_hint():
    with pytest.raises(SchemaInferenceError, match="Parameter x has an unsupported type annotation Missing"):
        infer_kind(unknown)
