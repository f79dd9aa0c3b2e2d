"""Which kernels and fake kernels fit an op, by their annotations and its schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import oplib
from oplib.errors import RegistrationError, RegistrationValueError
from oplib.library import Library, Tag, custom_op


def annotated(kind: Any, returns: Any = None) -> Callable[..., Any]:
    def kernel(x: Any) -> Any:
        return x

    kernel.__annotations__ = {"x": kind, "return": kind if returns is None else returns}
    return kernel


def without_annotations(x):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
    return x


@pytest.mark.parametrize("kind", [jax.Array, np.ndarray, oplib.Tensor])
def test_further_kernels_have_the_kind_of_the_first_or_no_annotations(kind: Any) -> None:
    op = custom_op("rules_test::kinds", annotated(kind), device_types="cpu")
    op.register_kernel("cuda")(annotated(kind))
    op.register_kernel("tpu")(without_annotations)
    other = jax.Array if kind is not jax.Array else np.ndarray
    with pytest.raises(RegistrationError, match="all kernels of an op have the kind of its first kernel"):
        op.register_kernel("cuda")(annotated(other))


def test_an_ordered_op_has_kernels_on_the_host_only() -> None:
    library = Library("rules_test", "FRAGMENT")
    library.define("steps(Tensor x) -> Tensor", tags=Tag.ordered)
    with pytest.raises(RegistrationError, match=r"Tag\.ordered is for kernels annotated numpy\.ndarray"):
        library.impl("steps", annotated(jax.Array), "CPU")
    library.impl("steps", annotated(np.ndarray), "CPU")
    library.define("jumps(Tensor x) -> Tensor")
    library.impl("jumps", annotated(jax.Array), "CPU")


@pytest.mark.parametrize(
    "schema", ["(Any x, Tensor y, Tree z) -> Tensor", "(Tensor x, Tensor[] *ys) -> Tensor"]
)
def test_trees_and_variadic_arguments_are_for_kernels_on_arrays(schema: str) -> None:
    def kernel(x: Any, *others: Any) -> Any:
        return x

    kernel.__annotations__ = {"x": oplib.Tensor, "others": oplib.Tensor, "return": oplib.Tensor}
    with pytest.raises(
        RegistrationValueError, match="trees and variadic arguments are for kernels on arrays"
    ):
        custom_op("rules_test::trees", kernel, schema=schema)


RETURNS: dict[str, list[tuple[Any, bool]]] = {
    "Tensor": [
        (jax.Array, True),
        (tuple[jax.Array], True),
        (tuple[jax.Array, jax.Array], False),
        (tuple, True),
    ],
    "(Tensor, Tensor)": [
        *((tuple[jax.Array, jax.Array], True), (tuple[jax.Array, ...], True), (tuple, True)),
        *((jax.Array, False), (tuple[jax.Array], False), ("jax.Array | unknown", True)),
    ],
    "Any": [(jax.Array, True), (tuple[jax.Array, jax.Array], True), (dict[str, jax.Array], True)],
}


@pytest.mark.parametrize(
    ("returns", "annotation", "fits"),
    [(returns, *pair) for returns, pairs in RETURNS.items() for pair in pairs],
)
def test_a_fake_kernel_is_annotated_with_as_many_results_as_the_op_has(
    returns: str, annotation: Any, fits: bool
) -> None:
    library = Library("rules_test", "FRAGMENT")
    library.define(f"several(Tensor x) -> {returns}")
    library.impl("several", annotated(jax.Array, Any), "CPU")
    fake = annotated(Any, annotation)
    if fits:
        oplib.library.register_fake("rules_test::several", fake)
        return
    with pytest.raises(RegistrationError, match="the fake kernel does not return what the op returns"):
        oplib.library.register_fake("rules_test::several", fake)


def test_a_fake_kernel_of_a_composite_op_is_refused() -> None:
    library = Library("rules_test", "FRAGMENT")
    library.define("whole(Tensor x) -> Tensor")
    library.impl("whole", annotated(oplib.Tensor), "CompositeImplicitAutograd")
    with pytest.raises(RegistrationError, match="a fake kernel would never run, because the op is composite"):
        oplib.library.register_fake("rules_test::whole", without_annotations)
