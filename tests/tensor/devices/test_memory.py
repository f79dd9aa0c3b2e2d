"""Sizes that no memory has: an error of oplib, before anything is allocated or compiled."""

from types import SimpleNamespace

import jax
import pytest

import oplib
from oplib.errors import AllocationError, ArgumentError
from oplib.tensor.devices import memory

MANY = 2**45

CALLS = {
    "zeros": lambda: oplib.zeros(2**62, 4),
    "ones": lambda: oplib.ones(2**31, 2**31),
    "full": lambda: oplib.full((2**50,), 1.0),
    "empty": lambda: oplib.empty(MANY),
    "eye": lambda: oplib.eye(2**40),
    "arange": lambda: oplib.arange(2**50),
    "linspace": lambda: oplib.linspace(0, 1, MANY),
    "rand": lambda: oplib.rand(10**6, 10**6, 10**6),
    "randn": lambda: oplib.randn(MANY),
    "randint": lambda: oplib.randint(0, 5, (MANY,)),
    "hann_window": lambda: oplib.hann_window(MANY),
    "tril_indices": lambda: oplib.tril_indices(2**22, 2**22),
    "repeat": lambda: oplib.ones(3).repeat(2**50),
    "tile": lambda: oplib.tile(oplib.ones(3), (2**50,)),
    "stack": lambda: oplib.stack([oplib.ones(1).expand(MANY)] * 2),
    "pad": lambda: oplib.nn.functional.pad(oplib.ones(3), (2**50, 0)),
    "mul": lambda: oplib.ones(2**20, 1) * oplib.ones(2**24),
    "mul, recorded": lambda: oplib.ones(2**20, 1, requires_grad=True) * oplib.ones(2**24),
    "matmul": lambda: oplib.ones(2**20, 1) @ oplib.ones(1, 2**24),
    "mul of expanded operands": lambda: oplib.ones(1).expand(MANY) * 2,
    "mul of arrays": lambda: oplib.mul(jax.numpy.ones((2**20, 1)), jax.numpy.ones(2**24)),
    "one_hot": lambda: oplib.nn.functional.one_hot(oplib.tensor([1]), MANY),
    "clone": lambda: oplib.ones(1).expand(MANY).clone(),
    "numpy": lambda: oplib.ones(1).expand(MANY).numpy(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_result_that_does_not_fit_into_memory_is_refused(name):
    for _ in range(2):
        with pytest.raises(AllocationError, match=r"does not fit into memory\. Got \w+\[[\d,]+\], which"):
            CALLS[name]()


@pytest.mark.parametrize(
    "call",
    [
        lambda: oplib.bincount(oplib.tensor([1]), minlength=2**50),
        lambda: oplib.nn.functional.interpolate(oplib.ones(1, 1, 2), size=2**50),
    ],
)
def test_memory_that_numpy_does_not_get_is_an_error_of_oplib(call):
    with pytest.raises(AllocationError, match=r"MemoryError.*or compute it in parts"):
        call()


def test_it_is_a_memory_error():
    with pytest.raises(MemoryError):
        oplib.zeros(2**62, 4)


@pytest.mark.parametrize("sizes", [(2**63,), (2**62, 4), (2**40, 2**40, 1)])
def test_expand_refuses_sizes_that_cannot_be_counted(sizes):
    with pytest.raises(ArgumentError, match="expand: a tensor has less than 2"):
        oplib.ones(1).expand(*sizes)


def test_a_size_is_compared_with_the_memory_there_is(monkeypatch):
    monkeypatch.setattr(memory, "find_memory", lambda: 2**28)
    assert oplib.ones(1, 3).expand(3, 3).add(1).shape == (3, 3)
    with pytest.raises(AllocationError, match=r"oplib::repeat: .* f32\[67108866\].* there are 268435456"):
        oplib.ones(3).repeat(2**26 // 3 + 1)


def test_a_traced_function_may_have_larger_values_which_xla_fuses_away():
    def total(x):
        return oplib.sum(oplib.mul(x, x.T))

    shape = jax.eval_shape(total, jax.ShapeDtypeStruct((2**22, 1), "float32"))
    assert shape.shape == ()


def test_a_traced_function_has_no_value_that_cannot_be_addressed():
    with pytest.raises(AllocationError, match="there are 9223372036854775807"):
        jax.eval_shape(lambda x: oplib.mul(x, x.T), jax.ShapeDtypeStruct((2**31, 1), "float32"))


def test_the_memory_of_a_cpu_is_that_of_the_machine_or_the_limit_of_the_process():
    assert 2**28 < memory.find_memory() < 2**63


@pytest.mark.parametrize(
    ("stats", "due"),
    [
        ([{"bytes_limit": 5}, {"bytes_limit": 7}], 4 * 7),  # the others are in another process
        ([{"bytes_limit": 5}, {}], 4 * 5),
        ([None, {"bytes_in_use": 3}], memory._ADDRESSES - 1),
    ],
)
def test_the_memory_of_accelerators_is_the_largest_known_for_each_of_them(monkeypatch, stats, due):
    def make(stat):
        return SimpleNamespace(platform="gpu", memory_stats=lambda: stat)

    monkeypatch.setattr("jax.local_devices", lambda: list(map(make, stats)))
    monkeypatch.setattr("jax.devices", lambda: [make({})] * 4)
    assert memory.find_memory.__wrapped__() == due
