"""Methods that are compiled in the body of a class: programs for each, whatever the class defines."""

import copy
import dataclasses
import gc
import pickle

import pytest

import oplib

pytestmark = pytest.mark.spec("J.4")


class Counter:
    def __init__(self):
        self.total = oplib.zeros(2)

    @oplib.jit
    def add(self, x):
        return self.total.add_(x)


class Slotted(Counter):
    __slots__ = ("total",)


class WithoutReferences:
    __slots__ = ("total",)
    __init__ = Counter.__init__
    add = Counter.add


@dataclasses.dataclass
class WithoutHash(Counter):
    size: int = 2

    def __post_init__(self):
        Counter.__init__(self)


@dataclasses.dataclass(frozen=True)
class Equal:
    size: int = 2

    def __post_init__(self):
        object.__setattr__(self, "total", oplib.zeros(2))

    add = Counter.add


@pytest.mark.parametrize("make", [Counter, Slotted, WithoutReferences, WithoutHash, Equal])
def test_each_instance_has_its_own_tensors(make):
    one, other = make(), make()
    for _ in range(2):
        one.add(oplib.ones(2))
    other.add(oplib.ones(2))
    assert (one.total.tolist(), other.total.tolist()) == ([2, 2], [1, 1])


def test_equal_instances_have_programs_of_their_own():
    one, other = Equal(), Equal()
    one.add(oplib.ones(2))
    assert (one.add.compilations, other.add.compilations) == (1, 0)


def test_programs_live_as_long_as_their_instance():
    instance, held = Counter(), vars(Counter)["add"]._of_instances
    instance.add(oplib.ones(2))
    number = id(instance)
    assert number in held
    del instance
    gc.collect()
    assert number not in held


@pytest.mark.parametrize("again", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_an_instance_has_tensors_of_its_own(again):
    one = Counter()
    one.step = oplib.jit(one.add.__wrapped__)
    one.step(oplib.ones(2))
    other = again(one)
    for function in (other.step, other.add, one.add):
        function(oplib.ones(2))
    assert (one.total.tolist(), other.total.tolist()) == ([2, 2], [3, 3])


@oplib.jit
def double(x):
    return x * 2


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copied_or_pickled_function_is_the_function(again):
    assert again(double) is double
