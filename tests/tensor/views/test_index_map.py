"""An index map is derived only from a function that moves items and does nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.tensor.views.frame import contiguous_strides
from oplib.tensor.views.index_map import derive_index_map

WHOLE = jnp.arange(6.0).reshape(2, 3) + 0.5
MOVES: dict[str, tuple[Callable[[Any], Any], bool]] = {  # with whether each item is taken once at most
    "a transposition": (lambda x: x.T, True),
    "every other item": (lambda x: x[:, ::2], True),
    "an item twice": (lambda x: x[:, [1, 1]], False),
    "no item": (lambda x: x[:0], True),
}
OTHERS: dict[str, Callable[[Any], Any]] = {
    "changes a value": lambda x: x + 1,
    "changes a sign": lambda x: -x,
    "changes values that are no integers": lambda x: jnp.where(x % 1 == 0, x, -x),
    "changes the dtype": lambda x: x.astype(jnp.int32),
    "changes the dtype of integers": lambda x: x.astype(jnp.float32),
    "gives other shapes for integers": lambda x: x if x.dtype == jnp.int32 else x.T,
    "takes no integers": jax.lax.sin,
}


@pytest.mark.parametrize("name", MOVES)
def test_the_frame_of_a_function_that_moves_items_reads_and_writes_as_it_does(name: str) -> None:
    function, is_injective = MOVES[name]
    part = function(WHOLE)
    frame = derive_index_map(function, WHOLE, part)
    assert frame is not None
    assert (frame.in_shape, frame.shape, frame.is_injective) == (WHOLE.shape, part.shape, is_injective)
    np.testing.assert_array_equal(frame.get(WHOLE, ()), part)
    assert frame.lay_out(((1, 2), 7), ()) == (
        contiguous_strides(part.shape),
        7,
    )  # its memory is one of its own
    if is_injective:
        written = frame.put(WHOLE, part * 10, ())
        np.testing.assert_array_equal(function(written), part * 10)
        assert np.count_nonzero(written != WHOLE) == part.size


@pytest.mark.parametrize("name", OTHERS)
def test_a_function_that_does_more_has_none(name: str) -> None:
    assert derive_index_map(OTHERS[name], WHOLE, OTHERS[name](WHOLE)) is None


def test_traced_values_are_not_compared_but_their_shapes_dtypes_and_bounds_are() -> None:
    def find(function: Callable[[Any], Any]) -> bool:
        found: list[Any] = []
        jax.jit(lambda x: found.append(derive_index_map(function, x, function(x))))(WHOLE)
        return found[0] is not None

    assert find(lambda x: x.T)
    assert find(OTHERS["changes values that are no integers"])
    assert not any(find(OTHERS[name]) for name in OTHERS if "dtype" in name or "shapes" in name)
    assert not find(lambda x: x + 1)
    assert not find(lambda x: x - 1)
