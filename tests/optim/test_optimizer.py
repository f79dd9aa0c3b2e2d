"""``oplib.optim.Optimizer``: transformations of optax as imperative optimizers."""

import copy
import io
import logging
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import oplib
from oplib.errors import ArgumentError, ArgumentTypeError, ArgumentValueError, AutogradError, TracingError
from oplib.optim import Optimizer


def make_params():
    return [oplib.ones(2, 3, requires_grad=True), oplib.full((3,), 2.0, requires_grad=True)]


def take_gradients(params):
    sum((one**3).sum() for one in params).backward()


def run_optax(transformation, count):
    params = [jnp.ones((2, 3)), jnp.full((3,), 2.0)]
    state = transformation.init(params)
    for _ in range(count):
        updates, state = transformation.update([3 * one**2 for one in params], state, params)
        params = optax.apply_updates(params, updates)
    return params


TRANSFORMATIONS = {
    "sgd": optax.sgd(0.01, momentum=0.9, nesterov=True),
    "adamw": optax.adamw(0.1),
    "chain": optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.exponential_decay(0.1, 2, 0.5))),
    "factored": optax.adafactor(0.1),
    "lion": optax.lion(0.01),
}


@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_steps_are_those_of_optax(name):
    params = make_params()
    optimizer = Optimizer(TRANSFORMATIONS[name], params)
    for _ in range(5):
        optimizer.zero_grad()
        take_gradients(params)
        optimizer.step()
    for found, expected in zip(params, run_optax(TRANSFORMATIONS[name], 5), strict=True):
        np.testing.assert_allclose(found.detach(), expected, rtol=1e-5)


def test_parameters_may_stand_in_containers_and_generators():
    w, b = make_params()
    labels = {"w": "fast", "rest": ["still"]}
    parts = optax.multi_transform({"fast": optax.sgd(0.1), "still": optax.set_to_zero()}, labels)
    optimizer = Optimizer(parts, {"w": w, "rest": [b]})
    take_gradients([w, b])
    optimizer.step()
    np.testing.assert_allclose(w.detach(), np.full((2, 3), 0.7), rtol=1e-6)
    assert b.tolist() == [2.0] * 3
    made = Optimizer(optax.sgd(0.1), (one for one in (w, b))).params
    assert [id(one) for one in made] == [id(w), id(b)]


ITERABLES = {
    "values": lambda params: dict(enumerate(params)).values(),
    "a set": set,
    "an iterator": iter,
    "a map": lambda params: map(oplib.Tensor.requires_grad_, params),
}


@pytest.mark.parametrize("kind", ITERABLES)
def test_parameters_may_come_from_any_iterable(kind):
    w, b = make_params()
    optimizer = Optimizer(optax.sgd(0.1), ITERABLES[kind]([w, b]))
    assert {id(one) for one in optimizer.params} == {id(w), id(b)}
    take_gradients([w, b])
    optimizer.step()
    np.testing.assert_allclose(w.detach(), np.full((2, 3), 0.7), rtol=1e-6)


@pytest.mark.parametrize("as_items", [dict.items, lambda named: list(named.items())], ids=["items", "list"])
def test_pairs_with_names_stand_for_a_dictionary(as_items):
    w, b = make_params()
    parts = optax.multi_transform(
        {"fast": optax.sgd(0.1), "still": optax.set_to_zero()}, {"w": "fast", "b": "still"}
    )
    optimizer = Optimizer(parts, as_items({"w": w, "b": b}))
    take_gradients([w, b])
    optimizer.step()
    np.testing.assert_allclose(w.detach(), np.full((2, 3), 0.7), rtol=1e-6)
    assert b.tolist() == [2.0] * 3


@pytest.mark.parametrize("second", ["w", None], ids=["twice", "missing"])
def test_names_given_twice_or_to_some_parameters_are_refused(second):
    w, b = make_params()
    with pytest.raises(ArgumentValueError, match="should be with or without names"):
        Optimizer(optax.sgd(0.1), [("w", w), b if second is None else (second, b)])


LABELS = {"a": "one", "b": {"c": "other", "d": "one"}}
PARTITIONS = {
    "two adams": optax.multi_transform({"one": optax.adam(0.1), "other": optax.adam(0.01)}, LABELS),
    "adam and sgd": optax.multi_transform({"one": optax.adam(0.1), "other": optax.sgd(0.01)}, LABELS),
    "momentum and frozen": optax.multi_transform(
        {"one": optax.sgd(0.1, momentum=0.9), "other": optax.set_to_zero()}, LABELS
    ),
    "labels of containers": optax.multi_transform(
        {"one": optax.adam(0.1), "other": optax.sgd(0.01, momentum=0.9)}, {"a": "one", "b": "other"}
    ),
    "labels by a function": optax.multi_transform(
        {"one": optax.adam(0.1), "other": optax.adam(0.01)},
        lambda params: jax.tree.map(lambda one: "one" if one.ndim == 1 else "other", params),
    ),
    "masked": optax.chain(
        optax.masked(optax.trace(0.9), {"a": True, "b": {"c": False, "d": True}}), optax.scale(-0.1)
    ),
    "masked container": optax.chain(
        optax.masked(optax.trace(0.9), {"a": True, "b": False}), optax.scale(-0.1)
    ),
    "masked decay": optax.adamw(0.1, weight_decay=0.5, mask={"a": True, "b": {"c": False, "d": True}}),
    "partition in a wrapper": optax.inject_hyperparams(
        lambda learning_rate: optax.multi_transform(
            {"one": optax.adam(learning_rate), "other": optax.sgd(0.01, momentum=0.9)}, LABELS
        )
    )(learning_rate=0.1),
}


def make_nested(kind):
    return {"a": kind([1.0, 2.0]), "b": {"c": kind([[3.0], [4.0]]), "d": kind([5.0])}}


@pytest.mark.matrix(3)
@pytest.mark.parametrize("compile_step", [lambda step: step, oplib.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", PARTITIONS)
def test_parts_of_the_parameters_may_have_their_own_transformation(name, compile_step):
    transformation = PARTITIONS[name]
    params = make_nested(lambda data: oplib.tensor(data, requires_grad=True))
    optimizer = Optimizer(transformation, params)

    def step():
        optimizer.zero_grad()
        take_gradients(optimizer.params)
        optimizer.step()

    arrays = make_nested(jnp.asarray)
    state = transformation.init(arrays)
    compiled = compile_step(step)
    for _ in range(4):
        compiled()
        grads = jax.tree.map(lambda one: 3 * one**2, arrays)
        updates, state = transformation.update(grads, state, arrays)
        arrays = optax.apply_updates(arrays, updates)
    for found, expected in zip(optimizer.params, jax.tree.leaves(arrays), strict=True):
        np.testing.assert_allclose(found.detach(), expected, rtol=1e-5)
    for found, expected in zip(optimizer.state, jax.tree.leaves(state), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_part_without_gradients_keeps_its_state():
    params = make_nested(lambda data: oplib.tensor(data, requires_grad=True))
    optimizer = Optimizer(PARTITIONS["two adams"], params)
    take_gradients([params["a"], params["b"]["c"]])
    optimizer.step()
    moments = {key: value for key, value in optimizer.state_dict()["state"].items() if ".mu" in key}
    assert len(moments) == 3
    for key, value in moments.items():
        assert value.any().item() == ("['d']" not in key)
    assert params["b"]["d"].tolist() == [5.0]


def test_a_step_is_one_compiled_call(caplog):
    params = make_params()
    optimizer = Optimizer(optax.adam(0.1), params)
    take_gradients(params)
    caplog.set_level(logging.WARNING, logger="jax")
    with jax.log_compiles():
        optimizer.step()
        first = sum("Finished XLA compilation" in record.getMessage() for record in caplog.records)
        optimizer.step()
        optimizer.step()
    assert first == 1
    assert sum("Finished XLA compilation" in record.getMessage() for record in caplog.records) == 1


def test_a_step_writes_in_place_and_counts_the_version():
    params = make_params()
    alias = params[0].detach()
    optimizer = Optimizer(optax.sgd(0.1), params)
    take_gradients(params)
    optimizer.step()
    assert params[0]._version == 1
    assert alias.tolist() == params[0].tolist()
    assert params[0].requires_grad
    assert params[0].is_leaf


def test_what_was_read_before_keeps_its_value():
    params = make_params()
    before = params[0].detach().array
    optimizer = Optimizer(optax.sgd(0.1), params)
    take_gradients(params)
    optimizer.step()
    assert before.tolist() == [[1.0] * 3] * 2


def test_a_parameter_without_gradient_is_left_alone_with_its_state():
    w, b = make_params()
    optimizer = Optimizer(optax.adamw(0.1, weight_decay=0.5), [w, b])
    take_gradients([w, b])
    optimizer.step()
    kept, moments = b.tolist(), optimizer.state_dict()["state"]["[0].mu[1]"].tolist()
    optimizer.zero_grad()
    take_gradients([w])
    optimizer.step()
    assert b.tolist() == kept
    assert optimizer.state_dict()["state"]["[0].mu[1]"].tolist() == moments


def test_a_step_without_any_gradient_does_nothing():
    params = make_params()
    optimizer = Optimizer(optax.adam(0.1), params)
    optimizer.step()
    assert optimizer.state_dict()["state"]["[0].count"].item() == 0
    assert params[0]._version == 0


def test_zero_grad_clears_or_writes_zeros():
    params = make_params()
    optimizer = Optimizer(optax.sgd(0.1), params)
    take_gradients(params)
    held = params[0].grad
    optimizer.zero_grad(set_to_none=False)
    assert params[0].grad is held
    assert held.tolist() == [[0.0] * 3] * 2
    optimizer.zero_grad()
    assert params[0].grad is None


def test_a_schedule_counts_in_a_tensor():
    (w, _) = make_params()
    optimizer = Optimizer(optax.sgd(optax.piecewise_constant_schedule(1.0, {2: 0.0})), [w])
    steps = []
    for _ in range(4):
        before = w.detach().clone()
        w.grad = oplib.ones(2, 3)
        optimizer.step()
        steps.append((before - w.detach())[0, 0].item())
    assert steps == [1.0, 1.0, 0.0, 0.0]


def test_further_arguments_reach_the_transformation():
    w = oplib.ones(1, requires_grad=True)
    plateau = optax.contrib.reduce_on_plateau(factor=0.5, patience=1)
    optimizer = Optimizer(optax.chain(optax.sgd(1.0), plateau), [w])
    for _ in range(5):
        w.grad = oplib.ones(1)
        optimizer.step(value=oplib.tensor(1.0))
    assert w.item() > 1 - 5


@pytest.mark.parametrize("compile_step", [lambda step: step, oplib.jit])
def test_an_error_of_the_transformation_names_the_optimizer(compile_step):
    w = oplib.ones(2, requires_grad=True)
    optimizer = Optimizer(optax.sgd("a"), [w])
    w.grad = oplib.ones(2)
    with pytest.raises(TypeError) as caught:
        compile_step(optimizer.step)()
    assert "Raised in the transformation of the Optimizer" in caught.value.__notes__[0]
    assert "learning rate" in caught.value.__notes__[0]

    def fail(params):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        Optimizer(optax.GradientTransformation(fail, fail), [w])
    assert "Raised in the transformation of the Optimizer" in caught.value.__notes__[0]


# Hyperparameters ------------------------------------------------------------------------------------------


def make_injected():
    (w, _) = make_params()
    return w, Optimizer(optax.inject_hyperparams(optax.sgd)(learning_rate=0.5), [w])


def test_a_hyperparameter_is_set_without_compiling(caplog):
    w, optimizer = make_injected()
    w.grad = oplib.ones(2, 3)
    optimizer.step()
    caplog.set_level(logging.WARNING, logger="jax")
    optimizer.hyperparams["learning_rate"] = 0.25
    with jax.log_compiles():
        optimizer.hyperparams["learning_rate"] = 0.125
        optimizer.step()
    assert not [record for record in caplog.records if "Finished XLA compilation" in record.getMessage()]
    assert w[0, 0].item() == 1 - 0.5 - 0.125
    assert optimizer.hyperparams["learning_rate"].item() == 0.125


def test_they_are_a_mapping():
    _, optimizer = make_injected()
    assert list(optimizer.hyperparams) == ["learning_rate"]
    assert len(optimizer.hyperparams) == 1
    optimizer.hyperparams["learning_rate"] *= 0.5
    optimizer.hyperparams["learning_rate"] = oplib.tensor(0.1)
    assert repr(optimizer.hyperparams) == "{'learning_rate': tensor(0.1000)}"


def test_they_are_found_inside_other_transformations():
    (w, _) = make_params()
    chain = optax.chain(optax.clip(1.0), optax.inject_hyperparams(optax.adam)(learning_rate=0.5))
    assert "learning_rate" in Optimizer(chain, [w]).hyperparams


def make_cyclic():
    held = [0.1]
    held.append(held)
    return held


NO_NUMBERS = {
    "cyclic": make_cyclic,
    "dict": lambda: {"a": 0.1},
    "str": lambda: "0.1",
    "None": lambda: None,
    "object": object,
    "huge": lambda: 10**400,
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_a_value_that_is_no_number_is_refused_and_not_stored(kind):
    value = NO_NUMBERS[kind]()
    _, optimizer = make_injected()
    before = find_depth()
    for _ in range(3):
        with pytest.raises(ArgumentError, match=r"is no number|has another shape|a container holds itself"):
            optimizer.hyperparams["learning_rate"] = value
    assert optimizer.hyperparams["learning_rate"].item() == 0.5
    assert find_depth() >= before


def find_depth(depth=0):
    """Returns how many calls deep Python goes from here."""
    try:
        return find_depth(depth + 1)
    except RecursionError:
        return depth


@pytest.mark.parametrize("state", [None, 1, "a", [], {}, {"state": None}], ids=repr)
def test_what_is_no_state_is_not_loaded(state):
    _, optimizer = make_injected()
    with pytest.raises(ArgumentError, match="load_state_dict: it is the state of another transformation"):
        optimizer.load_state_dict(state)


def test_parameters_in_a_container_that_holds_itself_are_refused():
    params = [oplib.ones(2, requires_grad=True)]
    params.append(params)
    with pytest.raises(ArgumentError, match=r"a container holds itself. Got a list at tree\[1\]"):
        Optimizer(optax.sgd(0.1), params)


def test_an_unknown_hyperparameter_raises():
    _, optimizer = make_injected()
    with pytest.raises(KeyError, match=r"there is no 'lr'. Got .*learning_rate.*Use one of these names\."):
        optimizer.hyperparams["lr"] = 0.1
    with pytest.raises(ArgumentError, match="'learning_rate' has another shape"):
        optimizer.hyperparams["learning_rate"] = oplib.ones(2)
    with pytest.raises(ArgumentError, match="'learning_rate' cannot be deleted"):
        del optimizer.hyperparams["learning_rate"]


# Its state ------------------------------------------------------------------------------------------------


def test_a_stored_state_goes_on_as_before():
    first, second = make_params(), make_params()
    one, other = (Optimizer(optax.adam(0.1), params) for params in (first, second))
    for _ in range(3):
        take_gradients(first)
        one.step()
        one.zero_grad()
    stored = io.BytesIO()
    oplib.save({"optimizer": one.state_dict(), "params": [p.detach() for p in first]}, stored)
    stored.seek(0)
    loaded = oplib.load(stored)
    other.load_state_dict(loaded["optimizer"])
    with oplib.no_grad():
        for param, value in zip(second, loaded["params"], strict=True):
            param.copy_(value)
    for params, optimizer in ((first, one), (second, other)):
        take_gradients(params)
        optimizer.step()
    assert [p.tolist() for p in first] == [p.tolist() for p in second]


@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_state_dict_holds_the_state_and_its_copy_does_not(is_compiled):
    params = make_params()
    optimizer = Optimizer(optax.adam(0.1), params)

    def run():
        optimizer.zero_grad()
        take_gradients(params)
        optimizer.step()

    step = oplib.jit(run) if is_compiled else run
    step()
    held, copied = optimizer.state_dict()["state"], optimizer.state_dict(copy=True)["state"]
    assert list(map(id, held.values())) == list(map(id, optimizer.state))
    assert list(map(id, optimizer.state_dict()["state"].values())) == list(map(id, optimizer.state))
    before = {name: one.tolist() for name, one in copied.items()}
    step()
    assert (held["[0].count"].item(), copied["[0].count"].item()) == (2, 1)
    assert {name: one.tolist() for name, one in copied.items()} == before
    assert all(one.tolist() != before[name] for name, one in held.items())
    optimizer.load_state_dict(optimizer.state_dict())
    assert held["[0].count"].item() == 2
    optimizer.load_state_dict({"state": copied})
    assert {name: one.tolist() for name, one in held.items()} == before
    assert optimizer.state_dict()["state"]["[0].count"] is held["[0].count"]


@pytest.mark.devices(4)
def test_a_copied_state_has_the_layouts_of_the_state():
    mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    optimizer = Optimizer(optax.adam(0.1), [oplib.ones(8, 2, device=spread, requires_grad=True)])
    copied = optimizer.state_dict(copy=True)["state"].values()
    for one, own in zip(copied, optimizer.state, strict=True):
        assert one is not own
        assert one.sharding.is_equivalent_to(own.sharding, one.ndim)


def test_the_wrong_state_is_refused_and_changes_nothing():
    params = make_params()
    optimizer = Optimizer(optax.adam(0.1), params)
    with pytest.raises(ArgumentValueError, match="the state of another transformation"):
        optimizer.load_state_dict(Optimizer(optax.sgd(0.1), params).state_dict())
    for state, told in [({}, "a dictionary without 'state'"), ({"state": None}, "None"), (3, "3")]:
        with pytest.raises(
            ArgumentValueError, match=f"the state of another transformation. Got {told}. Give"
        ):
            optimizer.load_state_dict(state)
    wrong = optimizer.state_dict(copy=True)
    wrong["state"]["[0].count"] += 1
    wrong["state"]["[0].nu[1]"] = oplib.ones(7)
    with pytest.raises(ArgumentValueError, match=r"'\[0\].nu\[1\]' does not fit. Got f32\[7\] for f32\[3\]"):
        optimizer.load_state_dict(wrong)
    assert optimizer.state_dict()["state"]["[0].count"].item() == 0


# Inside JAX, and on several devices -----------------------------------------------------------------------


def test_it_works_inside_a_trace_where_all_of_it_is_made():
    def train(array):
        w = oplib.Tensor.from_array(array, requires_grad=True)
        optimizer = Optimizer(optax.adam(0.1), [w])
        for _ in range(3):
            w.grad = None
            (w * w).sum().backward()
            optimizer.step()
        return w.detach().array

    array = jnp.asarray([1.0, -2.0])
    np.testing.assert_allclose(jax.jit(train)(array), train(array), rtol=1e-6)


def test_a_trace_may_not_update_what_was_made_outside():
    (w, _) = make_params()
    optimizer = Optimizer(optax.sgd(0.1), [w])

    def step(array):
        w.grad = None
        (gradient,) = oplib.autograd.grad((w * oplib.Tensor.from_array(array)).sum(), w)
        w.grad = gradient
        optimizer.step()

    with pytest.raises(TracingError, match="outside this trace"):
        jax.jit(step)(jnp.ones(3))
    w.grad = None
    assert w.tolist() == [[1.0] * 3] * 2


@pytest.mark.devices(4)
def test_parameters_and_state_keep_their_shardings():
    mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    w = oplib.Tensor.from_array(jax.device_put(jnp.ones((8, 2)), spread), requires_grad=True)
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    b = oplib.Tensor.from_array(jax.device_put(jnp.ones(2), everywhere), requires_grad=True)
    labels = {"b": "other", "w": "one"}
    partition = optax.multi_transform({"one": optax.adam(0.1), "other": optax.adam(0.1)}, labels)
    optimizer = Optimizer(partition, {"b": b, "w": w})
    for _ in range(2):
        optimizer.zero_grad()
        ((w * w).sum() + (b * b).sum()).backward()
        optimizer.step()
    parts = [one for one in optimizer.state if one.shape == (8, 2)]
    assert len(parts) == 2
    assert all(one.sharding.is_equivalent_to(spread, 2) for one in (w, *parts))


@pytest.mark.devices(4)
@pytest.mark.spec("J.19")
@pytest.mark.parametrize("is_compiled", [False, True])
def test_state_and_parameters_keep_layouts_of_their_own(is_compiled):
    mesh = jax.make_mesh((4,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    spread, whole = (
        jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*one)) for one in (["data"], [])
    )
    w = oplib.ones(8, 2).to(whole).requires_grad_()
    optimizer = Optimizer(optax.inject_hyperparams(optax.adam)(0.1), [w])
    assert all(one.sharding.is_equivalent_to(whole, one.ndim) for one in optimizer.state)
    for one in optimizer.state:
        if one.ndim:
            one.data = one.to(spread)  # parameters are whole on each device, and their state is not

    def run():
        optimizer.zero_grad()
        (w**3).sum().backward()
        optimizer.step()

    step = oplib.jit(run) if is_compiled else run
    step()
    optimizer.hyperparams["learning_rate"] = 0.2
    saved = io.BytesIO()
    oplib.save(optimizer.state_dict(), saved)  # a file has no layouts
    saved.seek(0)
    optimizer.load_state_dict(oplib.load(saved))
    step()
    assert w.sharding.is_equivalent_to(whole, 2)
    for one in optimizer.state:
        assert one.sharding.is_equivalent_to(spread if one.ndim else whole, one.ndim)
    assert not is_compiled or step.compilations == 1
    params, state = jnp.ones((8, 2)), None
    for rate in (0.1, 0.2):
        transformation = optax.adam(rate)
        state = transformation.init(params) if state is None else state
        updates, state = transformation.update(3 * params**2, state, params)
        params = optax.apply_updates(params, updates)
    np.testing.assert_allclose(w.detach(), params, rtol=1e-5)


# Bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda w: Optimizer(optax.adam, [w]), ArgumentTypeError, "'transformation' is not one of optax"),
        (lambda w: Optimizer(0.1, [w]), ArgumentTypeError, "'transformation' is not one of optax. Got 0.1"),
        (lambda w: Optimizer(optax.sgd(0.1), []), ArgumentValueError, "got an empty parameter list"),
        (lambda w: Optimizer(optax.sgd(0.1), [1.0]), ArgumentTypeError, "a parameter is no Tensor. Got 1.0"),
        (
            lambda w: Optimizer(optax.sgd(0.1), SimpleNamespace(parameters=lambda: [w])),
            ArgumentTypeError,
            r"of type SimpleNamespace. Give its parameters: model.parameters\(\)",
        ),
        (
            lambda w: Optimizer(optax.sgd(0.1), SimpleNamespace(named_parameters=lambda: [("w", w)])),
            ArgumentTypeError,
            r"Give its parameters: model.named_parameters\(\)",
        ),
        (lambda w: Optimizer(optax.sgd(0.1), [w, w]), ArgumentValueError, r"is given twice. Got f32\[2,3\]"),
        (
            lambda w: Optimizer(optax.sgd(0.1), [w * 2]),
            ArgumentValueError,
            "can't optimize a non-leaf Tensor",
        ),
    ],
)
def test_bad_input(make, error, text):
    with pytest.raises(error, match=text):
        make(make_params()[0])


def test_without_optax_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "optax", None)
    with pytest.raises(ImportError, match="pip install optax, which is the extra 'optim'"):
        Optimizer(object(), make_params())


@pytest.mark.parametrize("title", TRANSFORMATIONS)
def test_a_deep_copy_with_its_parameters_goes_on_alone_as_the_original(title):
    params = make_params()
    optimizer = Optimizer(TRANSFORMATIONS[title], params)
    take_gradients(params)
    optimizer.step()
    before = [one.tolist() for one in params]
    copied, of_copied = copy.deepcopy((params, optimizer))
    for owner, its in ((of_copied, copied), (optimizer, params)):
        assert [one.tolist() for one in params] == before
        owner.zero_grad()
        take_gradients(its)
        owner.step()
    assert [one.tolist() for one in copied] == [one.tolist() for one in params] != before


def test_a_state_that_is_no_dictionary_is_refused():
    optimizer = Optimizer(optax.sgd(0.1), [oplib.ones(2, requires_grad=True)])
    with pytest.raises(ArgumentValueError, match="load_state_dict: it is the state of another"):
        optimizer.load_state_dict(None)


@pytest.mark.devices(4)
@pytest.mark.spec("J.19")
@pytest.mark.parametrize("kind", ["Explicit", "Auto"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_loaded_state_on_a_mesh_compiles_one_program(kind, count):
    axis = jax.sharding.AxisType[kind]
    mesh = jax.make_mesh((count,), ("data",), axis_types=(axis,), devices=jax.devices()[:count])
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    w = oplib.ones(8).to(spread).requires_grad_()
    optimizer = Optimizer(optax.adam(0.1), [w])
    state = optimizer.state_dict()["state"]
    optimizer.load_state_dict({"state": {name: oplib.tensor(one.numpy()) for name, one in state.items()}})

    @oplib.jit
    def step(scale):
        (w * w * scale).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    for number in range(3):
        step(number + 1.0)
    assert step.compilations == 1


# What programs of torch call ------------------------------------------------------------------------------


def test_a_closure_computes_the_gradients_of_a_step():
    w = oplib.ones(2, requires_grad=True)
    optimizer = Optimizer(optax.sgd(0.1), [w])

    def compute():
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with oplib.no_grad():
        assert optimizer.step(compute).item() == 2.0
    assert w.tolist() == pytest.approx([0.8, 0.8])
    compiled = oplib.jit(lambda: optimizer.step(compute))
    assert compiled().item() == pytest.approx(1.28)
    assert w.tolist() == pytest.approx([0.64, 0.64])
    assert Optimizer(optax.sgd(0.1), [oplib.ones(1, requires_grad=True)]).step(lambda: 3) == 3


def test_options_of_torch_are_refused_with_the_way():
    w = oplib.ones(2, requires_grad=True)
    with pytest.raises(ArgumentTypeError, match=r"Got lr=0\.1\. Write Optimizer\(optax\.adam"):
        Optimizer([w], lr=0.1)
    with pytest.raises(ArgumentTypeError, match="'transformation' is not one of optax"):
        Optimizer([w])
    with pytest.raises(AttributeError, match=r"optimizer\.hyperparams, and optax\.multi_transform"):
        _ = Optimizer(optax.sgd(0.1), [w]).param_groups


@pytest.mark.parametrize("make", [optax.polyak_sgd, optax.contrib.reduce_on_plateau])
def test_a_transformation_that_reads_the_loss_says_so(make):
    w = oplib.ones(2, requires_grad=True)
    optimizer = Optimizer(make(), [w])
    (w * w).sum().backward()
    for step in (optimizer.step, oplib.jit(optimizer.step)):
        with pytest.raises(ArgumentTypeError, match=r"reads 'value', which is missing.*step\(value="):
            step()
    optimizer.step(value=(w * w).sum())


def test_a_line_search_is_refused_and_lbfgs_without_one_works():
    w = oplib.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ArgumentTypeError, match=r"cannot be divided among parameters.*linesearch=None"):
        Optimizer(optax.lbfgs(), [w])
    optimizer = Optimizer(optax.lbfgs(0.5, linesearch=None), [w])
    for _ in range(10):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
    assert (w * w).sum().item() < 0.1


def test_a_part_of_a_state_is_loaded_where_it_is_asked_for():
    w, b = oplib.ones(2, requires_grad=True), oplib.ones(3, requires_grad=True)
    small, large = Optimizer(optax.adam(0.1), {"w": w}), Optimizer(optax.adam(0.1), {"w": w, "b": b})
    (w * w).sum().backward()
    small.step()
    state = small.state_dict(copy=True)
    with pytest.raises(ArgumentValueError, match="strict=False"):
        large.load_state_dict(state)
    large.load_state_dict(state, strict=False)
    loaded = large.state_dict()["state"]
    assert {name: loaded[name].tolist() for name in state["state"]} == {
        name: one.tolist() for name, one in state["state"].items()
    }
    assert loaded["[0].mu['b']"].tolist() == [0.0] * 3
    small.load_state_dict(large.state_dict(copy=True), strict=False)
    with pytest.raises(ArgumentValueError, match="does not fit"):
        large.load_state_dict({"state": {"[0].mu['w']": oplib.ones(5)}}, strict=False)


@pytest.mark.parametrize("compile_step", [False, True])
def test_a_parameter_whose_items_share_memory_is_not_written(compile_step):
    param = oplib.zeros(()).expand(3).detach().requires_grad_()
    param.grad = oplib.tensor([1.0, 2.0, 3.0])
    optimizer = Optimizer(optax.sgd(1.0), [param])
    with pytest.raises(AutogradError, match="more than one element of the written-to tensor"):
        (oplib.jit(optimizer.step) if compile_step else optimizer.step)()
    assert param.tolist() == [0.0, 0.0, 0.0]
