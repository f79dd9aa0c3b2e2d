"""einops on Tensors, beside einops on the same numpy arrays."""

import subprocess
import sys

import jax
import numpy as np
import pytest

import oplib

einops = pytest.importorskip("einops")

VALUES = np.random.default_rng(0).uniform(0.5, 2.0, (2, 4, 6)).astype(np.float32)
CALLS = {
    "rearrange": lambda x: einops.rearrange(x, "b (h k) c -> (b h) c k", k=2),
    "rearrange list": lambda x: einops.rearrange([x, x * 2], "n b h c -> b n (h c)"),
    "repeat": lambda x: einops.repeat(x, "b h c -> b (h 2) c n", n=3),
    "sum": lambda x: einops.reduce(x, "b h c -> c", "sum"),
    "mean": lambda x: einops.reduce(x, "b (h 2) c -> h c b", "mean"),
    "max": lambda x: einops.reduce(x, "b h c -> b 1 c", "max"),
    "min": lambda x: einops.reduce(x, "b h c -> ", "min"),
    "prod": lambda x: einops.reduce(x, "b h c -> b", "prod"),
    "function": lambda x: einops.reduce(x, "b h c -> b", lambda y, axes: y.sum(axis=axes)),
    "einsum": lambda x: einops.einsum(x, x, "b h c, b k c -> b h k"),
    "pack": lambda x: einops.pack([x, x[:, 0], x * 3], "b * c")[0],
    "unpack": lambda x: einops.unpack(x, [[1], [3]], "b * c")[1],
}


@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_einops_returns_what_it_does_for_numpy(name):
    result = CALLS[name](oplib.tensor(VALUES))
    assert type(result) is oplib.Tensor
    np.testing.assert_allclose(result.numpy(), CALLS[name](VALUES), rtol=1e-5)


@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_einops_is_recorded_and_compiled(name):
    weight = np.cos(np.arange(CALLS[name](VALUES).size)).astype(np.float32)
    x = oplib.tensor(VALUES, requires_grad=True)

    def loss(x):
        return (CALLS[name](x).reshape(-1) * oplib.tensor(weight)).sum()

    loss(x).backward()
    expected = jax.grad(lambda x: (CALLS[name](x).reshape(-1) * weight).sum())(jax.numpy.asarray(VALUES))
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=2e-5, atol=1e-6)
    compiled = oplib.tensor(VALUES, requires_grad=True)
    oplib.jit(loss)(compiled).backward()
    np.testing.assert_allclose(compiled.grad.numpy(), expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("operation", ["any", "all"])
def test_bools_are_reduced(operation):
    result = einops.reduce(oplib.tensor(VALUES) > 1.9, "b h c -> b", operation)
    np.testing.assert_array_equal(result.numpy(), einops.reduce(VALUES > 1.9, "b h c -> b", operation))


def test_other_functions_of_einops():
    x = oplib.tensor(VALUES, requires_grad=True)
    assert einops.parse_shape(x, "b _ c") == {"b": 2, "c": 6}
    np.testing.assert_array_equal(einops.asnumpy(x), VALUES)
    first, last = einops.unpack(*einops.pack([x, x[:, 0]], "b * c"), "b * c")
    assert first.shape == (2, 4, 6)
    assert last.shape == (2, 6)


def test_a_mean_of_ints_and_a_wrong_pattern_are_errors_of_einops():
    with pytest.raises(NotImplementedError, match="reduce_mean is not available for non-floating"):
        einops.reduce(oplib.tensor([[1, 2]]), "a b -> a", "mean")
    with pytest.raises(einops.EinopsError, match="b h c"):
        einops.rearrange(oplib.ones(2, 3), "b h c -> c h b")


ORDERS = {
    "oplib first": "import oplib, einops",
    "einops first": "import einops, oplib",
    "einops used first": "import einops, numpy as np; einops.rearrange(np.ones(2), 'a -> a'); import oplib",
}


@pytest.mark.parametrize("order", ORDERS)
def test_einops_and_oplib_are_imported_in_any_order(order):
    code = (
        f"import sys\n{ORDERS[order]}\n"
        "print(tuple(einops.rearrange(oplib.ones(2, 3), 'a b -> b a').shape))\n"
        "print([one for one in sys.meta_path if type(one).__module__.startswith('oplib')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["(3, 2)", "[]"], done.stderr


def test_importing_oplib_imports_no_einops():
    code = "import sys, oplib; print('einops' in sys.modules, 'oplib.einops_backend' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
