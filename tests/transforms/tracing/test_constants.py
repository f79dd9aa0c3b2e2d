"""For which constants a program is compiled: those that the code may read."""

import types
from collections.abc import Callable
from functools import partial, partialmethod
from http import HTTPStatus
from types import SimpleNamespace
from typing import NamedTuple

import jax.numpy as jnp
import pytest

import oplib

pytestmark = pytest.mark.spec("J.4")

rate = 2.0


class Shared:
    rate = 2.0


class Trainer:
    def __init__(self):
        self.weight, self.scale, self.steps = oplib.ones(2), 1.0, 0
        self.bar, self.config = SimpleNamespace(steps=0, scale=1), {"inner": SimpleNamespace(rate=2.0)}
        self.losses = [1.0]

    @property
    def factor(self):
        return self.scale * self.config["inner"].rate

    def fit(self, x):
        self.steps += 1
        self.bar.steps += 1
        return self.step(x)

    def step(self, x):
        return x * self.weight * self.factor


class Case(NamedTuple):
    """A function, and a change outside of it."""

    function: Callable
    change: Callable


def use_namespace():
    config = SimpleNamespace(rate=2.0, other=1)
    return Case(lambda x: x * config.rate, lambda: setattr(config, "rate", 3.0))


def use_item():
    config = {"rate": 2.0, "other": 1}
    return Case(lambda x: x * config["rate"], lambda: config.update(rate=3.0))


def use_cell():
    factor = 2.0

    def change():
        nonlocal factor
        factor = 3.0

    return Case(lambda x: x * factor, change)


def use_class():
    class Config(Shared):
        pass

    return Case(lambda x: x * Config.rate, lambda: setattr(Config, "rate", 3.0))


def use_class_of_instance():
    config = Shared()
    return Case(lambda x: x * config.rate, lambda: setattr(config, "rate", 3.0))


def use_property():
    trainer = Trainer()
    return Case(trainer.step, lambda: setattr(trainer, "scale", 3.0))


def use_object_in_dictionary():
    trainer = Trainer()
    return Case(trainer.step, lambda: setattr(trainer.config["inner"], "rate", 3.0))


def use_replaced_object():
    trainer = Trainer()
    return Case(trainer.step, lambda: trainer.config.update(inner=SimpleNamespace(rate=3.0)))


def use_computed_name():
    trainer, prefix = Trainer(), "sca"
    return Case(
        lambda x: x * trainer.weight * getattr(trainer, prefix + "le"),
        partial(setattr, trainer, "scale", 3.0),
    )


def use_partial():
    config = SimpleNamespace(rate=2.0)
    scale = partial(lambda x, one: x * one.rate, one=config)
    return Case(lambda x: scale(x), lambda: setattr(config, "rate", 3.0))


def use_none_that_becomes_a_tensor():
    trainer = Trainer()
    trainer.mask = None
    return Case(
        lambda x: x * trainer.weight if trainer.mask is None else x * trainer.mask,
        lambda: setattr(trainer, "mask", oplib.full((2,), 3.0)),
    )


def use_number_that_becomes_a_tensor():
    trainer = Trainer()
    return Case(
        lambda x: x * trainer.weight * trainer.scale + (1 if oplib.is_tensor(trainer.scale) else 0),
        lambda: setattr(trainer, "scale", oplib.tensor(1.0)),
    )


def use_function_of_a_user():
    config = SimpleNamespace(act=lambda x: x * 2)
    return Case(lambda x: config.act(x), lambda: setattr(config, "act", lambda x: x * 3))


def use_function_of_a_library():
    trainer = Trainer()
    trainer.act = oplib.sin
    return Case(lambda x: trainer.act(x * trainer.weight), lambda: setattr(trainer, "act", oplib.cos))


def use_function_in_cell():
    act = oplib.sin

    def change():
        nonlocal act
        act = oplib.cos

    return Case(lambda x: act(x), change)


def use_object_of_another_class():
    class Double:
        def __call__(self, x):
            return x * 2

    class Triple:
        def __call__(self, x):
            return x * 3

    layers = [Double(), Double()]

    def run(x):
        for layer in layers:
            x = layer(x)
        return x

    return Case(run, lambda: layers.__setitem__(1, Triple()))


def use_list_that_grows():
    factors = [2.0]
    return Case(lambda x: sum(x * one for one in factors), lambda: factors.append(3.0))


def use_item_of_tuple():
    config = SimpleNamespace(stride=(2.0, 1))
    return Case(lambda x: x * config.stride[0], lambda: setattr(config, "stride", (3.0, 1)))


def use_dictionary_that_is_iterated():
    factors = {"one": 2.0, "other": 1}

    def run(x):
        for factor in factors.values():
            x = x * factor
        return x

    return Case(run, lambda: factors.update(other=3))


def use_set():
    flags = {"double"}
    return Case(lambda x: x * (2 if "double" in flags else 3), lambda: flags.remove("double"))


def use_member_of_enum():
    config = SimpleNamespace(status=HTTPStatus.OK)
    return Case(
        lambda x: x * (2 if config.status is HTTPStatus.OK else 3),
        lambda: setattr(config, "status", HTTPStatus.GONE),
    )


def use_dtype():
    trainer = Trainer()
    trainer.dtype = oplib.float32
    return Case(
        lambda x: (x * trainer.weight / 2).to(trainer.dtype), lambda: setattr(trainer, "dtype", oplib.int32)
    )


def use_array():
    config = SimpleNamespace(scale=jnp.full(2, 2.0))
    return Case(
        lambda x: x * oplib.Tensor.from_array(config.scale),
        lambda: setattr(config, "scale", jnp.full(2, 3.0)),
    )


def use_tensor_that_becomes_none():
    trainer = Trainer()
    trainer.mask = oplib.ones(2)
    return Case(lambda x: x * (2 if trainer.mask is None else 3), lambda: setattr(trainer, "mask", None))


def use_key_that_is_absent():
    config = {"other": 1.0}
    return Case(lambda x: x * config.get("rate", 2.0), lambda: config.update(rate=3.0))


def use_key_that_is_looked_for():
    config = {"other": 1.0}
    return Case(lambda x: x * (3 if "rate" in config else 2), lambda: config.update(rate=3.0))


def use_number_of_keys():
    config = {"one": 1.0}
    return Case(lambda x: x * len(config), lambda: config.update(other=1.0))


def use_keys_that_are_iterated():
    config = {"one": 1.0}
    return Case(lambda x: x * sum(len(key) for key in config), lambda: config.update(other=1.0))


def use_items_by_iterated_keys():
    config = {"one": 2.0}

    def run(x):
        for key in config:  # noqa: PLC0206  the loop over keys is the rule
            x = x * config[key]
        return x

    return Case(run, lambda: config.update(one=3.0))


def use_truth_of_a_dictionary():
    config = {}
    return Case(lambda x: x * (3 if config else 2), lambda: config.update(rate=1.0))


def use_dictionary_that_is_unpacked():
    def scale(x, one=1.0, other=1.0):
        return x * one * other

    config = {"one": 2.0}
    return Case(lambda x: scale(x, **config), lambda: config.update(other=2.0))


def use_key_of_an_argument():
    config, name = {"other": 1.0}, ["rate"]
    return Case(lambda x: x * config.get(name[0], 2.0), lambda: config.update(rate=3.0))


def use_attribute_that_is_looked_for():
    config = SimpleNamespace(other=1.0)
    return Case(lambda x: x * (3 if hasattr(config, "rate") else 2), lambda: setattr(config, "rate", 3.0))


def use_attribute_with_a_default():
    config = SimpleNamespace(other=1.0)
    return Case(lambda x: x * getattr(config, "rate", 2.0), lambda: setattr(config, "rate", 3.0))


def use_attribute_that_is_tried():
    config = SimpleNamespace(other=1.0)

    def run(x):
        try:
            return x * config.rate
        except AttributeError:
            return x * 2

    return Case(run, lambda: setattr(config, "rate", 3.0))


def use_attribute_of_an_object_with_a_tensor():
    trainer = Trainer()
    return Case(
        lambda x: x * trainer.weight * getattr(trainer, "rate", 2.0), lambda: setattr(trainer, "rate", 3.0)
    )


def use_replaced_partial():
    config = SimpleNamespace(act=partial(oplib.mul, other=2.0))
    return Case(lambda x: config.act(x), lambda: setattr(config, "act", partial(oplib.mul, other=3.0)))


def use_positions_of_a_replaced_partial():
    config = SimpleNamespace(act=partial(lambda factor, x: x * factor, 2.0))
    return Case(lambda x: config.act(x), lambda: setattr(config, "act", partial(config.act.func, 3.0)))


def use_keyword_of_a_partial():
    config = SimpleNamespace(act=partial(oplib.mul, other=2.0))
    return Case(lambda x: config.act(x), lambda: config.act.keywords.update(other=3.0))


def use_default():
    def scale(x, factor=2.0):
        return x * factor

    return Case(lambda x: scale(x), lambda: setattr(scale, "__defaults__", (3.0,)))


def use_keyword_default():
    def scale(x, *, factor=2.0):
        return x * factor

    return Case(lambda x: scale(x), lambda: scale.__kwdefaults__.update(factor=3.0))


def use_default_of_a_method():
    class Scale:
        def act(self, x, factor=2.0):
            return x * factor

    scale = Scale()
    return Case(lambda x: scale.act(x), lambda: setattr(Scale.act, "__defaults__", (3.0,)))


def use_sign_of_zero():
    config = SimpleNamespace(zero=0.0)
    return Case(lambda x: oplib.copysign(x, oplib.tensor(config.zero)), lambda: setattr(config, "zero", -0.0))


def _use_appearing(holder, *, owner=None):
    """The attribute ``rate`` of something that has none, until its owner gets it."""
    change = partial(setattr, holder if owner is None else owner, "rate", 3.0)
    return Case(lambda x: x * getattr(holder, "rate", 2.0), change)


def use_attribute_that_its_class_gets():
    kind = type("Kind", (), {})
    return _use_appearing(kind(), owner=kind)


def use_attribute_that_a_base_class_gets():
    base = type("Base", (), {})
    return _use_appearing(type("Kind", (base,), {})(), owner=base)


def use_attribute_that_a_class_itself_gets():
    return _use_appearing(type("Kind", (), {}))


def use_attribute_that_a_base_of_a_class_gets():
    base = type("Base", (), {})
    return _use_appearing(type("Kind", (base,), {}), owner=base)


def use_attribute_that_a_module_gets():
    return _use_appearing(types.ModuleType("settings_of_a_user"))


def use_attribute_that_a_function_gets():
    return _use_appearing(lambda: None)


def use_attribute_of_a_function():
    def act():
        raise AssertionError

    act.rate = 2.0
    return Case(lambda x: x * act.rate, lambda: setattr(act, "rate", 3.0))


def use_slot_that_is_filled():
    return _use_appearing(type("Kind", (), {"__slots__": ("rate",)})())


def use_property_that_its_class_gets():
    kind = type("Kind", (), {})
    held = kind()
    change = partial(setattr, kind, "rate", property(lambda self: 3.0))
    return Case(lambda x: x * (held.rate if hasattr(held, "rate") else 2), change)


def use_fallback_that_its_class_gets():
    kind = type("Kind", (), {})
    held = kind()
    return Case(
        lambda x: x * getattr(held, "rate", 2.0), lambda: setattr(kind, "__getattr__", lambda self, name: 3.0)
    )


def use_computed_name_that_a_class_gets():
    kind, name = type("Kind", (), {}), ["rate"]
    held = kind()
    return Case(lambda x: x * getattr(held, name[0], 2.0), lambda: setattr(kind, "rate", 3.0))


def use_method_that_is_replaced():
    kind = type("Kind", (), {"factor": lambda self: 2.0})
    held = kind()
    return Case(lambda x: x * held.factor(), lambda: setattr(kind, "factor", lambda self: 3.0))


def use_method_that_a_class_overrides():
    base = type("Base", (), {"factor": lambda self: 2.0})
    kind = type("Kind", (base,), {})
    held = kind()
    return Case(lambda x: x * held.factor(), lambda: setattr(kind, "factor", lambda self: 3.0))


def use_method_that_an_object_overrides():
    held = type("Kind", (), {"factor": lambda self: 2.0})()
    return Case(lambda x: x * held.factor(), lambda: setattr(held, "factor", lambda: 3.0))


def use_dictionary_of_a_class():
    kind = type("Kind", (), {"options": {"rate": 2.0}})
    held = kind()
    return Case(lambda x: x * held.options["rate"], lambda: kind.options.update(rate=3.0))


def use_integer_key():
    config = {7: 2.0}
    return Case(lambda x: x * config[7], lambda: config.update({7: 3.0}))


def use_computed_key():
    config, key = {"rate": 2.0}, ["rate"]
    return Case(lambda x: x * config[key[0]], lambda: config.update(rate=3.0))


def use_global_that_is_tried():
    def run(x):
        try:
            return x * a_global_that_appears
        except NameError:
            return x * 2

    run = types.FunctionType(run.__code__, {"NameError": NameError})
    return Case(run, lambda: run.__globals__.update(a_global_that_appears=3.0))


def use_global_in_place_of_a_builtin():
    def run(x):
        return x * max(2.0, 1.0)

    run = types.FunctionType(run.__code__, {})
    return Case(run, lambda: run.__globals__.update(max=lambda *numbers: 3.0))


def _with_globals(code, **held):
    return types.FunctionType(code.__code__, {"globals": globals, **held})


def use_global_by_its_key():
    run = _with_globals(lambda x: x * globals()["number"], number=2.0)
    return Case(run, lambda: run.__globals__.update(number=3.0))


def use_global_that_is_looked_up():
    run = _with_globals(lambda x: x * globals().get("number", 2.0))
    return Case(run, lambda: run.__globals__.update(number=3.0))


def use_global_by_a_computed_key():
    run = _with_globals(lambda x: x * globals()["NUMBER".lower()], number=2.0)
    return Case(run, lambda: run.__globals__.update(number=3.0))


def use_all_globals():
    run = _with_globals(lambda x: x * sum(each for each in globals().values() if type(each) is float), a=2.0)
    return Case(run, lambda: run.__globals__.update(a=3.0))


def use_item_of_a_large_list():
    rates = [2.0] * 1001
    return Case(lambda x: x * rates[5], lambda: rates.__setitem__(5, 3.0))


def use_item_of_a_large_dictionary():
    rates = dict.fromkeys(map(str, range(1001)), 2.0)
    return Case(lambda x: x * rates["5"], lambda: rates.update({"5": 3.0}))


def use_key_that_a_large_dictionary_exchanges():
    rates = dict.fromkeys(map(str, range(1001)), 2.0)
    return Case(lambda x: x * rates.get("rate", 2.0), lambda: rates.update(rate=rates.pop("7") + 1))


def use_large_list_that_is_replaced():
    config = SimpleNamespace(rates=[2.0] * 1001)
    return Case(lambda x: x * sum(config.rates), lambda: setattr(config, "rates", [3.0] * 1001))


def use_code_that_is_compiled_again():
    config = SimpleNamespace(code=compile("x * 2.0", "", "eval"))
    return Case(
        lambda x: eval(config.code, {"x": x}),
        lambda: setattr(config, "code", compile("x * 3.0", "", "eval")),
    )


def use_types_with_arguments():
    config = SimpleNamespace(kind=list[int])
    return Case(lambda x: x * (config.kind.__args__[0] is int), lambda: setattr(config, "kind", list[str]))


def use_union():
    config = SimpleNamespace(kind=int | str)
    return Case(lambda x: x * isinstance(b"", config.kind), lambda: setattr(config, "kind", int | bytes))


def use_history_of_a_tensor():
    held = oplib.ones(2, requires_grad=True) * 2
    return Case(lambda x: x * (2 if held.is_leaf else 3), lambda: held.detach_().requires_grad_())


@pytest.mark.spec("J.17")
@pytest.mark.parametrize("make", [value for name, value in globals().items() if name.startswith("use_")])
def test_a_number_that_the_code_reads_compiles_again(make):
    function, change = make()
    step, x = oplib.jit(function), oplib.ones(2)
    step(x)
    step(x)
    assert step.compilations == 1
    change()
    assert "serves this call" not in step.explain(x)
    assert step(x).tolist() == function(x).tolist()
    assert step.compilations == 2


def test_a_global_that_the_code_reads_compiles_again(monkeypatch):
    step = oplib.jit(lambda x: x * rate)
    step(oplib.ones(2))
    monkeypatch.setitem(globals(), "rate", 3.0)
    assert step(oplib.ones(2)).tolist() == [3, 3]


def scale_inside(x):
    def scale(value):
        return value * rate

    return scale(x)


@pytest.mark.parametrize("function", [scale_inside, lambda x: next(value * rate for value in [x])])
def test_a_global_that_a_function_inside_reads_compiles_again(function, monkeypatch):
    compiled = oplib.jit(function)
    assert compiled(oplib.ones(1)).tolist() == [2.0]
    monkeypatch.setitem(globals(), "rate", 3.0)
    assert compiled(oplib.ones(1)).tolist() == [3.0]


def test_counters_that_other_code_reads_compile_nothing():
    trainer = Trainer()
    trainer.step = oplib.jit(trainer.step)
    for _ in range(3):
        trainer.fit(oplib.ones(2))
        trainer.losses.append(1.0)
        trainer.bar.scale += 1
    assert trainer.step.compilations == 1


@pytest.mark.spec("J.17")
@pytest.mark.parametrize("is_caught", [False, True])
def test_globals_with_the_names_of_attributes_compile_nothing(monkeypatch, is_caught):
    held = SimpleNamespace(fit=lambda x: x.sum() * rate)

    def run(x):
        return held.fit(x)

    def run_or_raise(x):
        try:
            return held.fit(x)
        except Exception as error:
            raise ValueError from error

    step = oplib.jit(run_or_raise if is_caught else run)
    for number in range(3):
        assert step(oplib.ones(2)).item() == 4
        for name in ("fit", "sum"):
            monkeypatch.setitem(globals(), name, number)
    assert step.compilations == 1


@pytest.mark.spec("J.17")
def test_a_global_after_256_other_names_compiles_again(monkeypatch):
    lines = "; ".join(f"x.name{number}" for number in range(300))
    monkeypatch.setitem(globals(), "late", 2.0)
    exec(f"def run(x):\n    if x is None: {lines}\n    return x * late", globals(), scope := {})
    step = oplib.jit(scope["run"])
    assert step(oplib.ones(1)).tolist() == [2.0]
    monkeypatch.setitem(globals(), "late", 3.0)
    assert step(oplib.ones(1)).tolist() == [3.0]


@pytest.mark.spec("J.17")
@pytest.mark.parametrize(
    "large",
    [
        {(number, "pair"): number for number in range(1001)},
        {(number, "pair") for number in range(1001)},
        types.MappingProxyType(dict.fromkeys(map(str, range(1001)), 1)),
    ],
)
def test_a_large_collection_with_keys_of_any_kind_compiles_nothing_again(large):
    step = oplib.jit(lambda x: x * len(large))
    for _ in range(2):
        assert step(oplib.ones(1)).tolist() == [1001]
    assert step.compilations == 1


class Options(dict):
    """A dictionary whose attributes are its items; a missing one is a KeyError."""

    __slots__ = ("empty",)
    __getattr__ = dict.__getitem__


@pytest.mark.spec("J.17")
def test_a_class_whose_attributes_raise_other_errors_is_compared_by_its_items():
    options = Options(rate=2.0)
    step = oplib.jit(lambda x: x * options.rate)
    for value in (2.0, 2.0, 3.0):
        options["rate"] = value
        assert step(oplib.ones(1)).tolist() == [value]
    assert step.compilations == 2


@pytest.mark.spec("J.17")
def test_what_the_code_does_not_read_may_grow():
    config, log, bar = {"rate": 2.0}, [], SimpleNamespace(rate=1.0)
    step = oplib.jit(lambda x: x * config["rate"] * bar.rate)
    for number in range(3):
        step(oplib.ones(2))
        config[f"other{number}"] = number
        log.append(number)
        setattr(bar, f"other{number}", number)
    assert step.compilations == 1


@pytest.mark.spec("J.17")
def test_the_explanation_names_what_has_other_keys_or_attributes():
    config, options = {"other": 1.0}, SimpleNamespace(other=1.0)
    step = oplib.jit(lambda x: x * config.get("rate", 2.0) * getattr(options, "scale", 1.0))
    step(oplib.ones(2))
    config["rate"] = 3.0
    assert "config has other keys than ['other']" in step.explain(oplib.ones(2))
    del config["rate"]
    options.scale = 3.0
    assert "options has other attributes than ['other']" in step.explain(oplib.ones(2))


@pytest.mark.spec("J.17")
@pytest.mark.parametrize("count", [8, 9])
def test_the_explanation_names_at_most_eight_keys(count):
    config = dict.fromkeys(range(count), 1.0)
    step = oplib.jit(lambda x: x * config.get("rate", 2.0))
    step(oplib.ones(2))
    config["rate"] = 3.0
    shown = "0, 1, 2, 3, 4, 5, 6, 7" + ", Ellipsis" * (count > 8)
    assert f"config has other keys than [{shown}]" in step.explain(oplib.ones(2))


@pytest.mark.spec("J.17")
def test_the_explanation_names_the_one_that_has_changed():
    config, options = {"rate": 2.0, "scale": 1.0}, SimpleNamespace(first=1.0, second=1.0)
    step = oplib.jit(lambda x: x * config["rate"] * config["scale"] * options.first * options.second)
    step(oplib.ones(2))
    config["scale"] = 3.0
    assert step.explain(oplib.ones(2)).endswith("of config has changed: ['scale']")
    config["scale"] = 1.0
    options.second = 2.0
    assert step.explain(oplib.ones(2)).endswith("of options has changed: ['second']")


@pytest.mark.spec("J.17")
def test_the_explanation_names_what_has_appeared():
    kind = type("Kind", (), {})
    held = kind()
    step = oplib.jit(lambda x: x * (3 if hasattr(held, "rate") else 2))
    step(oplib.ones(2))
    kind.rate = 3.0
    assert step.explain(oplib.ones(2)).endswith("Kind has now ['rate']")


@pytest.mark.spec("J.17")
def test_attributes_that_the_code_does_not_name_may_appear():
    kind = type("Kind", (), {"factor": lambda self: 2.0})
    held = kind()
    step = oplib.jit(lambda x: x * held.factor() if hasattr(held, "factor") else x)
    for number in range(3):
        step(oplib.ones(2))
        setattr(kind, f"other{number}", number)
        setattr(held, f"other{number}", number)
    assert step.compilations == 1


@pytest.mark.spec("J.17")
def test_a_dictionary_with_many_keys_is_compared_by_its_length_and_the_keys_in_the_code():
    config = dict.fromkeys(range(1001), 1.0)
    step = oplib.jit(lambda x: x * (3 if "rate" in config else 2) * len(config))
    step(oplib.ones(2))
    config[5] = 2.0
    step(oplib.ones(2))
    assert step.compilations == 1
    config["rate"] = config.pop(7)
    assert step(oplib.ones(2)).tolist() == [3003, 3003]
    config["other"] = 3.0
    assert step(oplib.ones(2)).tolist() == [3006, 3006]
    assert step.compilations == 3


def test_a_function_that_is_made_again_compiles_nothing():
    config = SimpleNamespace()

    def set_scale(scale):
        config.act = lambda x: x * scale

    step = oplib.jit(lambda x: config.act(x))
    results = []
    for number in (2.0, 3.0):
        set_scale(oplib.full((2,), number))
        results.append(step(oplib.ones(2)).tolist())
    assert results == [[2, 2], [3, 3]]
    assert step.compilations == 1


def test_a_list_that_the_function_fills_compiles_nothing_again():
    kept = []
    step = oplib.jit(lambda x: (kept.append(1), x * 2)[1])
    for _ in range(3):
        step(oplib.ones(2))
        kept.clear()
    assert step.compilations == 1


@pytest.mark.parametrize("keys", [("{", "}{0}"), tuple(HTTPStatus)[:2], (None, 1.5)])
def test_any_key_may_lead_to_a_tensor(keys):
    tensors = {key: oplib.ones(2) for key in keys}
    step = oplib.jit(lambda x: x * tensors[keys[0]] + tensors[keys[1]])
    assert step(oplib.ones(2)).tolist() == [2, 2]


@pytest.mark.spec("J.3")
def test_a_variable_that_counts_traces_is_a_side_effect():
    weight, traces = oplib.ones(2), 0

    @oplib.jit
    def step(x):
        nonlocal traces
        traces += 1
        return x * weight

    step(oplib.ones(2))
    step(oplib.ones(2))
    assert traces == 1
    assert step.compilations == 1


def test_a_function_of_oplib_keeps_its_program_when_its_code_is_written_again(monkeypatch):
    step = oplib.jit(oplib.pow)
    step(oplib.ones(2), 0.5)
    names = [name for name in oplib.pow.__code__.co_names if name in oplib.pow.__globals__]
    for name in names:  # objects that another kind of call may drop
        monkeypatch.delitem(oplib.pow.__globals__, name)
    assert step.explain(oplib.ones(2), 0.25) == "pow: a compiled program serves this call"


def test_a_function_in_an_attribute_that_the_code_does_not_name_adds_nothing():
    config = SimpleNamespace(rate=2.0)
    holder = SimpleNamespace(weight=oplib.ones(2), report=lambda: config.rate)
    step = oplib.jit(lambda x: x * holder.weight)
    for config.rate in (1.0, 2.0, 3.0):
        assert step(oplib.ones(2)).tolist() == [1, 1]
    assert step.compilations == 1


def test_what_an_object_of_pythons_classes_calls_is_read():
    config = SimpleNamespace(rate=2.0)

    class Model:
        def _scale(self, x, factor):
            return x * (factor * config.rate)

        scale = partialmethod(_scale, factor=3.0)

    model = Model()
    step = oplib.jit(lambda x: model.scale(x))
    for config.rate in (1.0, 2.0, 2.0):
        assert step(oplib.ones(2)).tolist() == [3 * config.rate] * 2
    assert step.compilations == 2
