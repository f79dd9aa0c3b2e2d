"""Size: a tuple with ``numel``, which stays a Size where torch's does."""

import copy
import importlib.util
import pickle

import jax
import pytest

import oplib
from oplib.errors import DataTypeError

SIZE = oplib.ones(2, 3).size()
SHAPE = (4, 5)

STAY = {
    "slice": lambda size: size[:1],
    "sum": lambda size: size + SHAPE,
    "sum from the right": lambda size: SHAPE + size,
    "product": lambda size: size * 2,
    "product from the right": lambda size: 2 * size,
    "copy": copy.deepcopy,
    "pickle": lambda size: pickle.loads(pickle.dumps(size)),
    "tree": lambda size: oplib.pytree.tree_map(lambda length: length, size),
}
USES = {
    "zeros": oplib.zeros,
    "rand": oplib.rand,
    "new": lambda size: oplib.ones(1).new(size),
    "new_zeros": lambda size: oplib.ones(1).new_zeros(size),
    "view": lambda size: oplib.ones(6).view(size),
    "reshape": lambda size: oplib.ones(6).reshape(size),
    "expand": lambda size: oplib.ones(3).expand(size),
    "broadcast_to": lambda size: oplib.broadcast_to(oplib.ones(3), size),
    "unflatten": lambda size: oplib.ones(6).unflatten(0, size),
    "as_strided": lambda size: oplib.as_strided(oplib.ones(6), size, oplib.Size([3, 1])),
    "jit": lambda size: oplib.jit(lambda x, shape: x.view(shape) * 1)(oplib.ones(6), size),
    "vmap": lambda size: oplib.vmap(lambda x: x.view(size) * 1)(oplib.ones(2, 6))[0],
}


def test_size_and_shape_give_a_size_which_is_a_tuple():
    assert (type(SIZE), SIZE, SIZE.numel(), hash(SIZE)) == (oplib.Size, (2, 3), 6, hash((2, 3)))
    shape = oplib.ones(2, 3).shape
    assert (type(shape), shape, shape.numel(), repr(shape)) == (oplib.Size, (2, 3), 6, "(2, 3)")
    assert (oplib.Size(), oplib.Size([oplib.tensor(2), 3]).numel()) == ((), 6)
    assert SIZE[0] == 2


@pytest.mark.parametrize("way", STAY)
@pytest.mark.parametrize("name", ["oplib", "torch"])
def test_what_is_made_of_a_size_is_one_where_torch_makes_one(name, way):
    if name == "oplib":
        assert type(STAY[way](SIZE)) is oplib.Size
    elif way != "tree":  # torch's trees have no Size
        if importlib.util.find_spec("torch") is None:
            pytest.skip("there is no torch to compare with")
        torch = importlib.import_module("torch")
        assert type(STAY[way](torch.ones(2, 3).size())) is torch.Size


@pytest.mark.parametrize("use", USES)
def test_a_size_is_taken_where_a_shape_is(use):
    for _ in range(2):  # the second call takes the fast path
        assert USES[use](SIZE).shape == (2, 3)


def test_new_takes_a_tuple_as_data():
    assert oplib.ones(1).new((2, 3)).tolist() == [2, 3]


def test_a_size_is_an_argument_of_a_function_that_jax_compiles():
    assert jax.jit(lambda size: size[0] * size[1])(SIZE) == 6


def test_a_size_holds_integers():
    with pytest.raises(DataTypeError, match=r"Size: it takes an iterable of 'int'. Got 'float' as item 1"):
        oplib.Size([1, 1.5])
