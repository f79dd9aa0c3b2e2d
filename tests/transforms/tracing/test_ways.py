"""Ways that the code may go to what a program is compiled for: a case reads a number, and changes it."""

import argparse
import collections
import dataclasses
import enum
import functools
import math
import operator
import threading
import types
import weakref
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import pytest

import oplib

pytestmark = pytest.mark.spec("J.17")


class Case(NamedTuple):
    """A function, and a change outside of it."""

    function: Any
    change: Any


class Config(dict[str, Any]):
    def __missing__(self, key):
        return 2.0


@dataclasses.dataclass(eq=False, repr=False)  # code of these methods would name the fields
class Rates:
    first: float = 2.0
    second: float = 1.0


class Scale(oplib.autograd.Function):
    """Its methods are called by oplib only."""

    @staticmethod
    def forward(ctx, x):
        return x * rates[0]

    @staticmethod
    def backward(ctx, grad):
        return grad * rates[0]


rates = [2.0]


@pytest.fixture(autouse=True)
def restore_rates(monkeypatch):
    monkeypatch.setitem(globals(), "rates", [2.0])


def use_function_class():
    return Case(lambda x: Scale.apply(x), lambda: rates.__setitem__(0, 3.0))


def use_function_class_by_another_name():
    scale = Scale.apply
    return Case(lambda x: scale(x), lambda: rates.__setitem__(0, 3.0))


def use_backward_of_a_function_class():
    def run(x):
        leaf = x.detach().requires_grad_()
        Scale.apply(leaf).sum().backward()
        return leaf.grad

    return Case(run, lambda: rates.__setitem__(0, 3.0))


def use_replaced_method_of_a_function_class():
    class Own(oplib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    return Case(lambda x: Own.apply(x), lambda: setattr(Own, "forward", staticmethod(lambda ctx, x: x * 3)))


def use_compiled_function_inside():
    inner = oplib.jit(lambda x: x * rates[0])
    return Case(lambda x: inner(x), lambda: rates.__setitem__(0, 3.0))


def use_compiled_method_inside():
    class Model:
        rate = 2.0

        @oplib.jit
        def inner(self, x):
            return x * self.rate

    model = Model()
    return Case(lambda x: model.inner(x), lambda: setattr(model, "rate", 3.0))


def use_custom_op():
    @oplib.library.custom_op("ways::scale", mutates_args=())
    def scale(x: oplib.Tensor) -> oplib.Tensor:
        return x * rates[0]

    return Case(lambda x: scale(x), lambda: rates.__setitem__(0, 3.0))


def _use_rule(change):
    @oplib.library.custom_op("ways::same", mutates_args=())
    def same(x: oplib.Tensor) -> oplib.Tensor:
        return x * 1

    def run(x):
        leaf = x.detach().requires_grad_()
        same(leaf).sum().backward()
        return leaf.grad

    same.register_autograd(lambda ctx, grad: grad * rates[0])
    return Case(run, lambda: change(same))


def use_rule_of_a_custom_op():
    return _use_rule(lambda same: rates.__setitem__(0, 3.0))


def use_replaced_rule_of_a_custom_op():
    return _use_rule(lambda same: same.register_autograd(lambda ctx, grad: grad * 5))


def use_cached_function():
    factor = functools.cache(lambda: rates[0])

    def change():
        rates[0] = 3.0
        factor.cache_clear()

    return Case(lambda x: x * factor(), change)


def use_own_dictionary_of_python_code():
    class Own(collections.UserDict):
        pass

    held = Own(rate=2.0)
    return Case(lambda x: x * held["rate"], lambda: held.update(rate=3.0))


def use_parsed_arguments():
    arguments = argparse.Namespace(rate=2.0)
    return Case(lambda x: x * arguments.rate, lambda: setattr(arguments, "rate", 3.0))


def use_value_of_a_thread():
    local = threading.local()
    local.rate = 2.0
    return Case(lambda x: x * local.rate, lambda: setattr(local, "rate", 3.0))


def use_weak_reference():
    child, parent = SimpleNamespace(), Rates()
    child.parent = weakref.ref(parent)
    return Case(lambda x: x * child.parent().first, lambda: setattr(parent, "first", 3.0))


def use_weak_keys():
    key = Rates.__init__
    held = weakref.WeakKeyDictionary({key: 2.0})
    return Case(lambda x: x * held[key], lambda: held.__setitem__(key, 3.0))


def use_read_only_dictionary():
    config = {"rate": 2.0}
    shown = types.MappingProxyType(config)
    return Case(lambda x: x * shown["rate"], lambda: config.update(rate=3.0))


def use_method_of_a_dictionary():
    config = {"rate": 2.0}
    read = config.get
    return Case(lambda x: x * read("rate"), lambda: config.update(rate=3.0))


def use_dictionary_in_an_object_of_python():
    config = collections.ChainMap({}, collections.UserDict(rate=2.0))
    return Case(lambda x: x * config["rate"], lambda: config.maps[1].update(rate=3.0))


def use_key_that_is_missing():
    config = Config(other=1)
    return Case(lambda x: x * config["rate"], lambda: config.update(rate=3.0))


def use_attribute_getter():
    config, read = SimpleNamespace(inner=Rates()), operator.attrgetter("inner.first")
    return Case(lambda x: x * read(config), lambda: setattr(config.inner, "first", 3.0))


def use_item_getter():
    config, read = {"rate": 2.0}, operator.itemgetter("rate")
    return Case(lambda x: x * read(config), lambda: config.update(rate=3.0))


def use_private_slot():
    class Holder:
        __slots__ = ("__rate",)

        def __init__(self):
            self.change(2.0)

        def change(self, rate):
            self.__rate = rate

        def scale(self, x):
            return x * self.__rate

    holder = Holder()
    return Case(lambda x: holder.scale(x), lambda: holder.change(3.0))


def _of_class(before, after, read):
    class Holder:
        held = before

    return Case(lambda x: read(x, Holder.held), lambda: setattr(Holder, "held", after))


def use_slice_of_a_class():
    return _of_class(slice(0, 1), slice(0, 2), lambda x, held: x[held])


def use_builtin_function_of_a_class():
    return _of_class(math.sin, math.cos, lambda x, held: x * held(1.0))


def use_class_of_a_class():
    return _of_class(Rates, type("Others", (), {"first": 3.0}), lambda x, held: x * held.first)


def use_builtin_function():
    config = SimpleNamespace(act=math.sin)
    return Case(lambda x: x * config.act(1.0), lambda: setattr(config, "act", math.cos))


def use_partial_method():
    class Model:
        def scale(self, x, factor):
            return x * factor * rates[0]

        act = functools.partialmethod(scale, factor=1.0)

    model = Model()
    return Case(lambda x: model.act(x), lambda: rates.__setitem__(0, 3.0))


def use_setter():
    class Model:
        @property
        def value(self):
            return self._value

        @value.setter
        def value(self, value):
            self._value = value * rates[0]

    def run(x):
        model = Model()
        model.value = x
        return model.value

    return Case(run, lambda: rates.__setitem__(0, 3.0))


def use_method_of_an_enum():
    class Act(enum.Enum):
        SCALE = 1

        def __call__(self, x):
            return x * rates[0]

    config = SimpleNamespace(act=Act.SCALE)
    return Case(lambda x: config.act(x), lambda: rates.__setitem__(0, 3.0))


def use_property_of_a_metaclass():
    class Meta(type):
        @property
        def rate(cls):
            return rates[0]

    class Model(metaclass=Meta):
        pass

    return Case(lambda x: x * Model.rate, lambda: rates.__setitem__(0, 3.0))


def use_attribute_that_hides_that_of_a_metaclass():
    class Meta(type):
        rate = 2.0

    class Model(metaclass=Meta):
        pass

    return Case(lambda x: x * Model.rate, lambda: setattr(Model, "rate", 3.0))


def use_replaced_special_method():
    class Model:
        def __call__(self, x):
            return x * 2

    model = Model()
    return Case(lambda x: model(x), lambda: setattr(Model, "__call__", lambda self, x: x * 3))


def use_object_that_is_made_inside():
    class Made:
        def __init__(self):
            self.rate = rates[0]

    return Case(lambda x: x * Made().rate, lambda: rates.__setitem__(0, 3.0))


def use_function_by_a_computed_key():
    functions, name = {"double": lambda x: x * 2}, ["double"]
    return Case(lambda x: functions[name[0]](x), lambda: functions.update(double=lambda x: x * 3))


def use_object_by_a_computed_name():
    config, name = SimpleNamespace(inner=Rates()), ["inner"]
    return Case(lambda x: x * getattr(config, name[0]).first, lambda: setattr(config.inner, "first", 3.0))


def use_function_with_two_names():
    def double(x):
        return x * 2

    def triple(x):
        return x * 3

    config = SimpleNamespace(act=double)
    return Case(lambda x: config.act(x) + double(x) + triple(x), lambda: setattr(config, "act", triple))


def use_object_at_two_places():
    first, second = {"rate": 2.0}, {"rate": 3.0}
    layers = [first, second, first]
    return Case(lambda x: x * layers[2]["rate"], lambda: layers.__setitem__(2, second))


def use_object_that_another_way_leads_to_first():
    config = Rates()
    holder = SimpleNamespace(unread=config, inner=SimpleNamespace(config=config))
    return Case(lambda x: x * holder.inner.config.first, lambda: setattr(config, "first", 3.0))


def use_identity_of_tensors():
    config = SimpleNamespace(first=oplib.ones(2))
    config.second = config.first
    return Case(
        lambda x: x * (2 if config.first is config.second else 3),
        lambda: setattr(config, "second", oplib.ones(2)),
    )


def use_fields_as_a_tuple():
    config = Rates()
    return Case(lambda x: x * dataclasses.astuple(config)[0], lambda: setattr(config, "first", 3.0))


def use_leaves_of_a_tree():
    config = {"rate": 2.0}
    return Case(lambda x: x * jax.tree.leaves(config)[0], lambda: config.update(rate=3.0))


def _exchange(numbers):
    del numbers[2]
    numbers[3] = 0


def use_sum_of_keys():
    numbers = {1: 0, 2: 0}
    return Case(lambda x: x * sum(numbers), lambda: _exchange(numbers))


def use_keys_as_arguments():
    numbers = {1: 0, 2: 0}
    return Case(lambda x: x * math.hypot(*numbers), lambda: _exchange(numbers))


def use_pattern_of_a_mapping():
    config = {"other": 2.0}

    def run(x):
        match config:
            case {"rate": rate}:
                return x * rate
        return x

    def change():
        del config["other"]
        config["rate"] = 3.0

    return Case(run, change)


def use_pattern_of_an_object():
    config = Rates()

    def run(x):
        match config:
            case Rates(first, _):
                return x * first
        return x

    return Case(run, lambda: setattr(config, "first", 3.0))


def use_attribute_where_any_exception_is_caught():
    config = SimpleNamespace()

    def run(x):
        try:
            return x * config.rate
        except Exception:  # noqa: BLE001  what the case is about
            return x

    return Case(run, lambda: setattr(config, "rate", 3.0))


@pytest.mark.usefixtures("forget_ops")
@pytest.mark.parametrize("make", [value for name, value in globals().items() if name.startswith("use_")])
def test_what_changes_on_a_way_of_the_code_compiles_again(make):
    function, change = make()
    step, x = oplib.jit(function), oplib.ones(2)
    assert step(x).tolist() == function(x).tolist()
    assert step(x).tolist() == function(x).tolist()
    assert step.compilations == 1
    change()
    assert "serves this call" not in step.explain(x)
    assert step(x).tolist() == function(x).tolist()
    assert step.compilations == 2


def test_the_explanation_names_the_place_that_leads_elsewhere():
    step = oplib.jit(use_object_at_two_places().function)
    layers = step.__wrapped__.__closure__[0].cell_contents
    step(oplib.ones(2))
    layers[2] = layers[1]
    assert step.explain(oplib.ones(2)).endswith("layers[2] is no longer layers[0]")


def test_a_weak_reference_leads_to_a_tensor():
    weight = oplib.ones(2)
    ref = weakref.ref(weight)
    step = oplib.jit(lambda x: x * ref())
    assert step(oplib.ones(2)).tolist() == [1, 1]
    weight.add_(1)
    assert step(oplib.ones(2)).tolist() == [2, 2]
    assert step.compilations == 1


def test_a_weak_reference_to_nothing_may_give_way_to_one_to_an_object():
    config = SimpleNamespace(rate=weakref.ref(Rates()))
    step = oplib.jit(lambda x: x * (2 if config.rate() is None else 3))
    assert step(oplib.ones(2)).tolist() == [2, 2]
    rate = Rates()
    config.rate = weakref.ref(rate)
    assert step(oplib.ones(2)).tolist() == [3, 3]


def test_an_object_that_only_other_code_names_compiles_nothing():
    config = SimpleNamespace(rate=2.0, log=Rates(), counts={"calls": 0})
    step = oplib.jit(lambda x: x * config.rate)
    for number in range(3):
        step(oplib.ones(2))
        config.log.first = float(number)
        config.counts["calls"] += 1
        config.counts[str(number)] = number
    assert step.compilations == 1


@pytest.mark.spec("J.23")
def test_what_a_trace_puts_under_a_name_that_was_absent_compiles_once():
    def double(x):
        return x * 2

    def step(x):
        y = double(x)
        setattr(double, "last", y.shape)  # noqa: B010  the code asks for attributes by their names
        return y * (3 if hasattr(double, "is_large") else 1)

    compiled = oplib.jit(step)
    for _ in range(3):
        assert compiled(oplib.ones(2)).tolist() == [2.0, 2.0]
    assert (compiled.compilations, double.last) == (1, (2,))
