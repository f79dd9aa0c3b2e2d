"""Objects that code tells apart: places that held one object, or two, must do so again."""

import gc
import types
import weakref
from types import SimpleNamespace

import pytest

import oplib
from oplib.transforms.control_flow import flow_program

pytestmark = pytest.mark.spec("J.24")


class Model:
    """An object without attributes."""


first, second = Model(), Model()
RATES = {first: 2.0, second: 3.0}


def copy_function(function):
    return types.FunctionType(function.__code__, globals())


def use_objects_as_keys():
    config = SimpleNamespace(model=first)
    return lambda x: x * RATES[config.model], lambda: setattr(config, "model", second)


def use_functions_as_keys():
    one = lambda: 0  # noqa: E731  what a registry may hold
    other = copy_function(one)
    rates, config = {one: 2.0, other: 3.0}, SimpleNamespace(function=one)
    return lambda x: x * rates[config.function], lambda: setattr(config, "function", other)


def use_tensors_as_keys():
    one, other = oplib.ones(1), oplib.ones(1)
    rates = {one: oplib.full((1,), 2.0), other: oplib.full((1,), 3.0)}
    config = SimpleNamespace(weight=one)
    return lambda x: x * rates[config.weight], lambda: setattr(config, "weight", other)


def use_weak_keys():
    rates, config = weakref.WeakKeyDictionary(RATES), SimpleNamespace(model=first)
    return lambda x: x * rates[config.model], lambda: setattr(config, "model", second)


def use_keys_that_are_exchanged():
    rates = dict(RATES)

    def change():
        del rates[first]
        rates[first], rates[second] = 3.0, 2.0

    return lambda x: x * rates[first], change


def use_a_set():
    known, config = {first}, SimpleNamespace(model=first)
    return lambda x: x * (2 if config.model in known else 3), lambda: setattr(config, "model", second)


def use_equality():
    config = SimpleNamespace(model=first, other=first)
    return lambda x: x * (2 if config.model == config.other else 3), lambda: setattr(config, "other", second)


def use_lists_that_become_one():
    config = SimpleNamespace(left=[1], right=[1])
    return (
        lambda x: x * (3 if config.left is config.right else 2),
        lambda: setattr(config, "right", config.left),
    )


def use_objects_that_become_one():
    config = SimpleNamespace(left=Model(), right=Model())
    return (
        lambda x: x * len({config.left, config.right}),
        lambda: setattr(config, "right", config.left),
    )


def use_tensors_that_become_one():
    config = SimpleNamespace(left=oplib.ones(1), right=oplib.ones(1))
    return (
        lambda x: x * (3 if config.left is config.right else 2),
        lambda: setattr(config, "right", config.left),
    )


def use_identity_of_an_operand():
    config = SimpleNamespace(weight=oplib.ones(1))
    known = {id(config.weight): 2.0}
    return (
        lambda x: x * config.weight * known.get(id(config.weight), 3.0),
        lambda: setattr(config, "weight", oplib.ones(1)),
    )


@pytest.mark.parametrize("make", [value for name, value in globals().items() if name.startswith("use_")])
def test_another_object_that_the_code_tells_apart_compiles_again(make):
    function, change = make()
    step, x = oplib.jit(function), oplib.ones(2)
    before = function(x).tolist()
    assert step(x).tolist() == before
    assert step(x).tolist() == before
    assert step.compilations == 1
    change()
    assert function(x).tolist() != before
    assert step(x).tolist() == function(x).tolist()


def make_dictionaries():
    return {}, {}


def change_dictionaries(held, x):
    held.left["v"] = x
    held.right["v"] = x * 2
    return held.left["v"]


def make_lists():
    return [oplib.ones(1)], [oplib.ones(1)]


def change_lists(held, x):
    held.left[0] = x
    held.right[0] = x * 2
    return held.left[0]


def make_generators():
    return oplib.Generator().manual_seed(1), oplib.Generator().manual_seed(2)


def change_generators(held, x):
    return x + oplib.rand(1, generator=held.left), x + oplib.rand(1, generator=held.right)


def seed_generators(held, x):
    held.left.manual_seed(3)
    return x + oplib.rand(1, generator=held.right)


def make_tensors():
    weight = oplib.ones(1)
    return weight, weight.detach()


def change_tensors(held, x):
    held.left.requires_grad_(True)
    result = x * held.right * (3 if held.right.requires_grad else 2)
    held.left.requires_grad_(False)
    return result.detach()


def set_gradients(held, x):
    held.left.grad = x
    result = x * (2 if held.right.grad is None else 3)
    held.left.grad = None
    return result


@pytest.mark.parametrize(
    ("make", "function"),
    [
        (make_dictionaries, change_dictionaries),
        (make_lists, change_lists),
        (make_generators, change_generators),
        (make_generators, seed_generators),
        (make_tensors, change_tensors),
        (make_tensors, set_gradients),
    ],
)
def test_what_a_call_changes_may_stand_at_two_places_later_and_at_one_again(make, function):
    def run(decorate):
        held, results = SimpleNamespace(), []
        held.left, held.right = make()
        other = held.right
        step = decorate(lambda x: function(held, x))
        for right in (other, held.left, other, held.left):
            held.right = right
            results += [repr(step(oplib.ones(1))) for _ in range(2)]
        return results, step

    found, step = run(oplib.jit)
    assert found == run(lambda function: function)[0]
    assert step.compilations <= 4


def scan(rate):
    return oplib.scan(lambda carry, x: (carry + x * rate(), x), oplib.zeros(()), oplib.ones(2))[0]


def choose(rate):
    return oplib.cond(oplib.tensor(True), lambda x: x * rate(), lambda x: x, oplib.tensor(2.0))


def loop(rate):
    return oplib.while_loop(lambda x: x < 2, lambda x: x + rate(), oplib.tensor(1.0))


@pytest.mark.parametrize("run", [scan, choose, loop])
def test_closures_of_control_flow_that_differ_in_an_object_share_no_program(run):
    found = [run(lambda model=model: RATES[model]).item() for model in (first, second)]
    assert found == [run(lambda rate=rate: rate).item() for rate in (2.0, 3.0)]
    assert found[0] != found[1]


def test_closures_and_objects_that_are_made_for_each_call_share_a_program():
    def run():
        own = Model()
        rates = {own: 2.0, Model(): 3.0}
        scale = lambda x: x * rates[own]  # noqa: E731  a helper of the call
        return oplib.scan(lambda carry, x: (carry + scale(x), x), oplib.zeros(3), oplib.ones(2, 3))[0]

    def count():
        return sum(map(len, flow_program._programs.by_key.values()))

    assert run().tolist() == [4.0] * 3
    before = count()
    assert run().tolist() == [4.0] * 3
    assert count() == before


def test_equal_objects_that_are_exchanged_together_compile_nothing():
    config = SimpleNamespace(model=first, rates={first: 2.0})
    step = oplib.jit(lambda x: x * config.rates[config.model])
    step(oplib.ones(1))
    config.model, config.rates = second, {second: 2.0}
    assert step(oplib.ones(1)).tolist() == [2.0]
    assert step.compilations == 1


def test_keys_are_not_kept_alive():
    key = Model()
    rates, config = {key: 2.0}, SimpleNamespace(model=key)
    step = oplib.jit(lambda x: x * rates[config.model])
    step(oplib.ones(1))
    gone = weakref.ref(key)
    del key, config.model
    rates.clear()
    gc.collect()  # a trace leaves a cycle of references
    assert gone() is None
