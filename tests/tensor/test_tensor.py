"""The box: what it holds, and what shares it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from oplib.errors import DataTypeError
from oplib.tensor import Tensor, box, tensor
from tests.tensor.nodes import make_result


def test_a_box_holds_the_array_itself_and_little_else() -> None:
    array = jnp.ones(3)
    x = box(array)
    assert x.array is array
    assert list(vars(x)) == ["_storage"]
    assert (x.requires_grad, x.is_leaf, x.grad, x.grad_fn, x.output_nr, x._version) == (
        False,
        True,
        None,
        None,
        0,
        0,
    )


def test_from_array_takes_arrays_and_tracers_without_copying() -> None:
    array = jnp.ones(3)
    assert Tensor.from_array(array).array is array
    found = []
    jax.jit(lambda a: (found.append(Tensor.from_array(a).array is a), a)[1])(array)
    assert found == [True]


@pytest.mark.parametrize("data", [np.ones(2), [1.0], 1.0, None])
def test_from_array_takes_nothing_else(data: Any) -> None:
    with pytest.raises(DataTypeError, match=r"Tensor\.from_array: 'array' is not a jax\.Array\. Got "):
        Tensor.from_array(data)


def test_an_array_is_never_weakly_typed() -> None:
    found = []
    jax.jit(lambda: (found.append(Tensor.from_array(jnp.asarray(1.0)).array.weak_type), 0)[1])()
    assert found == [False]


def test_detach_shares_storage_and_version_but_not_history() -> None:
    x = make_result()
    y = x.detach()
    assert (y.requires_grad, y.grad_fn) == (False, None)
    x._storage.write(jnp.ones(2))
    assert y.tolist() == [1.0, 1.0]
    assert x._version == y._version == 1


def test_detach_keeps_trace_scope_and_the_reason_not_to_be_written() -> None:
    x = tensor([1.0])
    x._scope, x._read_only = 3, "view"
    y = x.detach()
    assert (y._trace, y._scope, y._read_only) == (x._trace, 3, "view")
