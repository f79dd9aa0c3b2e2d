"""Order beside torch: nan, both zeros and infinities, equal items, each kind of dtype, and large sizes."""

import jax
import numpy as np
import pytest

import oplib
import oplib.nn.functional as F

torch = pytest.importorskip("torch")

DRAWS = np.random.default_rng(0)
EDGES = np.array([3, np.nan, -0.0, 0.0, np.inf, -np.inf, 3, 2, -np.nan, 1], np.float32)
VALUES = {
    "edges": EDGES,
    "without nan": EDGES[~np.isnan(EDGES)],
    "all nan": np.full(3, np.nan, np.float32),
    "ints": DRAWS.integers(-5, 5, 20).astype(np.int32),
    "bytes": DRAWS.integers(0, 9, 20).astype(np.uint8),
    "least int": np.array([-(2**31), 2**31 - 1, 0, -(2**31)], np.int32),
    "least byte": np.array([-128, 127, 0, -1, -128, 127], np.int8),
    "halves": DRAWS.normal(size=(5, 6)).astype(np.float16),
    "blocks": DRAWS.integers(-3, 3, (3, 4, 5)).astype(np.float32),
}


def look(result):
    return result.detach().numpy()


@pytest.fixture(params=VALUES)
def pair(request):
    value = VALUES[request.param]
    return torch.tensor(value), oplib.tensor(value)


@pytest.mark.matrix(3)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_the_values_of_topk_are_those_of_torch_and_lie_at_its_indices(pair, largest, dim, k):
    theirs, ours = pair
    expected = torch.topk(theirs, k, dim, largest)
    values, indices = oplib.topk(ours, k, dim, largest)
    np.testing.assert_array_equal(look(values), look(expected.values))
    np.testing.assert_array_equal(np.take_along_axis(look(ours), look(indices), dim), look(values))


def test_of_equal_items_topk_takes_the_first():
    x = oplib.tensor([2.0, -0.0, 5.0, 0.0, 5.0, 2.0])
    assert oplib.topk(x, 6)[1].tolist() == [2, 4, 0, 5, 1, 3]
    assert oplib.topk(x, 6, largest=False)[1].tolist() == [1, 3, 0, 5, 2, 4]


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dim", [None, 0, -1])
def test_the_first_extremum_is_found_or_the_first_nan(pair, name, dim):
    array = look(pair[1])
    found = getattr(oplib, name)(pair[1], dim)
    np.testing.assert_array_equal(look(found), getattr(np, name)(array, dim))  # numpy's is the first


@pytest.mark.matrix(3)
@pytest.mark.parametrize("name", ["median", "nanmedian", "kthvalue"])
@pytest.mark.parametrize("dim", [0, -1])
def test_an_item_of_a_rank_is_that_of_torch_and_lies_at_its_index(pair, name, dim):
    theirs, ours = pair
    arguments = (2, dim) if name == "kthvalue" else (dim,)
    values, indices = getattr(oplib, name)(ours, *arguments)
    np.testing.assert_array_equal(look(values), look(getattr(torch, name)(theirs, *arguments).values))
    picked = np.take_along_axis(look(ours), np.expand_dims(look(indices), dim), dim).squeeze(dim)
    np.testing.assert_array_equal(picked, look(values))


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("descending", [True, False])
def test_a_sort_is_torchs_stable_one(pair, descending, dim):
    theirs, ours = pair
    expected = torch.sort(theirs, stable=True, descending=descending, dim=dim)
    for found, due in zip(oplib.sort(ours, descending=descending, dim=dim), expected, strict=True):
        np.testing.assert_array_equal(look(found), look(due))
        np.testing.assert_array_equal(np.signbit(look(found)), np.signbit(look(due)))


WIDE = {  # some have keys that leave no room for an index beside them
    "float64": np.array([2, np.nan, -0.0, 0, -np.inf, 2, 1e-310, np.inf]),
    "float32": np.array([2, np.nan, -0.0, 0, -np.inf, 2, 1e-40, np.inf], np.float32),
    "int64": np.array([-(2**63), 2**63 - 1, 0, -1, 2**40, -(2**63)]),
    "int32": np.array([-(2**31), 2**31 - 1, 0, -1, 2**20, -(2**31)], np.int32),
}


@pytest.mark.parametrize("kind", WIDE)
@pytest.mark.parametrize("descending", [True, False])
def test_a_sort_with_64_bits_is_torchs(kind, descending):
    with jax.enable_x64(True):
        expected = torch.sort(torch.tensor(WIDE[kind]), stable=True, descending=descending)
        for found, due in zip(
            oplib.sort(oplib.tensor(WIDE[kind]), descending=descending), expected, strict=True
        ):
            np.testing.assert_array_equal(look(found), look(due))
            assert look(found).dtype == look(due).dtype


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize(
    "wrap", [jax.jit, jax.vmap, lambda f: jax.jit(jax.vmap(f)), lambda f: jax.vmap(jax.jit(f))]
)
def test_a_transformed_sort_needs_no_setting_of_64_bits(wrap, descending):
    array = DRAWS.integers(-3, 3, (6, 9)).astype(np.float32)
    expected = torch.sort(torch.tensor(array), stable=True, descending=descending).indices
    found = wrap(lambda row: oplib.argsort(row, descending=descending))(jax.numpy.asarray(array))
    np.testing.assert_array_equal(found, expected.numpy())
    assert found.dtype == np.int32


@pytest.mark.parametrize("call", [oplib.sort, oplib.argsort, oplib.msort])
def test_cpus_sort_single_integers_which_takes_a_fifth_of_the_time_of_pairs(call):
    compiled = jax.jit(call).lower(jax.ShapeDtypeStruct((1000,), np.float32)).compile().as_text()
    (line,) = [line for line in compiled.splitlines() if " sort(" in line]
    assert " = s64[1000]" in line


@pytest.mark.parametrize("kind", ["without nan", "ints", "bytes", "halves", "blocks"])
def test_the_most_frequent_item_is_that_of_torch(kind):
    value = VALUES[kind]
    values, indices = oplib.mode(oplib.tensor(value))
    np.testing.assert_array_equal(look(values), look(torch.mode(torch.tensor(value)).values))
    picked = np.take_along_axis(value, look(indices)[..., None], -1)[..., 0]
    np.testing.assert_array_equal(picked, look(values))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8])
def test_membership_among_many_is_that_of_torch(dtype):
    items = (DRAWS.normal(size=(60, 7)) * 20).astype(dtype)
    given = (DRAWS.normal(size=500) * 20).astype(dtype)
    expected = torch.isin(torch.tensor(items), torch.tensor(given))
    np.testing.assert_array_equal(look(oplib.isin(oplib.tensor(items), oplib.tensor(given))), look(expected))


def test_nan_is_among_no_items():
    items = np.concatenate([EDGES, np.arange(1000, dtype=np.float32)])
    found = look(oplib.isin(oplib.tensor(items), oplib.tensor(items)))
    np.testing.assert_array_equal(found, ~np.isnan(items))


ROWS = np.zeros((4, 2), np.float32)
CALLS = {
    "mode": lambda x: oplib.mode(x)[0],
    "isin": lambda x: oplib.isin(x, x),
    "median": oplib.median,
    "topk": lambda x: oplib.topk(x, 5)[0],
    "embedding": lambda x: F.embedding(x.astype(np.int32), ROWS, scale_grad_by_freq=True),
    "argmax": oplib.argmax,
}


@pytest.mark.parametrize("name", CALLS)
def test_memory_grows_with_the_number_of_items(name):
    def measure(count):
        lowered = jax.jit(CALLS[name]).lower(jax.ShapeDtypeStruct((count,), np.float32))
        return lowered.compile().memory_analysis().temp_size_in_bytes

    assert measure(100_000) <= 15 * measure(10_000) + 1000


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_of_least_items_beside_padding_a_pool_picks_one_that_is_there(dtype):
    least = -np.inf if dtype == np.float32 else np.iinfo(dtype).min
    x = np.full((1, 1, 5, 5), least, dtype)
    x[0, 0, 3, 3] = 1
    values, indices = F.max_pool2d(oplib.tensor(x), 3, 2, 1, return_indices=True)
    assert indices.min() >= 0
    np.testing.assert_array_equal(x.reshape(-1)[indices.numpy()], values.numpy())
