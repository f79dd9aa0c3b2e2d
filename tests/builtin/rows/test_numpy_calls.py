"""numpy's reductions of a Tensor, beside those of the same numpy array."""

import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentTypeError

VALUES = np.array([[1.0, 5.0, 2.0], [4.0, 3.0, 9.0]], np.float32)
CALLS = {
    "all": lambda x: np.all(x),
    "all keepdims": lambda x: np.all(x > 2, axis=1, keepdims=True),
    "any": lambda x: np.any(x > 4, axis=(0, 1)),
    "any axis": lambda x: np.any(x > 4, axis=0),
    "max": lambda x: np.max(x),
    "max axis": lambda x: np.max(x, axis=1),
    "max keepdims": lambda x: np.max(x, axis=-1, keepdims=True),
    "mean": lambda x: np.mean(x),
    "mean axes": lambda x: np.mean(x, axis=(0, 1)),
    "mean dtype": lambda x: np.mean(x, axis=0, dtype=np.float16),
    "min": lambda x: np.min(x, axis=(0, 1), keepdims=True),
    "prod": lambda x: np.prod(x),
    "prod axis": lambda x: np.prod(x, axis=1),
    "std": lambda x: np.std(x),
    "std ddof": lambda x: np.std(x, axis=1, ddof=1),
    "std dtype": lambda x: np.std(x, axis=0, dtype=np.float16, keepdims=True),
    "sum": lambda x: np.sum(x),
    "sum axis": lambda x: np.sum(x, axis=1, keepdims=True),
    "sum dtype": lambda x: np.sum(x, dtype=np.int32),
    "var": lambda x: np.var(x),
    "var correction": lambda x: np.var(x, axis=0, correction=1),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_reduction_of_a_tensor_is_that_of_its_numpy_array(name):
    expected = CALLS[name](VALUES)
    result = CALLS[name](oplib.tensor(VALUES))
    assert type(result) is oplib.Tensor
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    np.testing.assert_allclose(result.numpy(), expected, rtol=2e-3 if "dtype" in name else 1e-6)


@pytest.mark.parametrize("name", ["max", "max axis", "mean", "prod", "std", "sum", "var"])
def test_a_reduction_of_a_tensor_is_recorded(name):
    x = oplib.tensor(VALUES, requires_grad=True)
    CALLS[name](x).sum().backward()
    step, expected = 1e-3, np.zeros_like(VALUES)
    for place in np.ndindex(VALUES.shape):
        more, less = VALUES.astype(np.float64), VALUES.astype(np.float64)
        more[place] += step
        less[place] -= step
        expected[place] = (np.sum(CALLS[name](more)) - np.sum(CALLS[name](less))) / (2 * step)
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: np.sum(x, out=np.zeros(())), "out"),
        (lambda x: np.sum(x, initial=1.0), "initial"),
        (lambda x: np.mean(x, where=VALUES > 1), "where"),
        (lambda x: np.std(x, mean=VALUES), "mean"),
    ],
)
def test_an_option_that_oplib_does_not_have_is_refused(call, name):
    with pytest.raises(ArgumentTypeError, match=rf"numpy\.\w+: of a Tensor it takes no '{name}'"):
        call(oplib.tensor(VALUES))


def test_a_method_still_refuses_names_that_numpy_does_not_pass():
    x = oplib.tensor(VALUES)
    with pytest.raises(ArgumentTypeError, match="unexpected keyword argument 'ddof'"):
        x.std(ddof=1)
    with pytest.raises(ArgumentTypeError, match="unexpected keyword argument 'out'"):
        x.softmax(axis=0, out=None)
