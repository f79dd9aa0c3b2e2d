"""Changes between two steps of an ``Optimizer``: each step is that of optax on what is there then."""

import sys
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import oplib
from oplib.errors import AutogradError
from oplib.optim import Optimizer

TRANSFORMATIONS = {
    "adam": optax.adam(0.1),
    "momentum": optax.sgd(0.1, momentum=0.9),
    "injected": optax.inject_hyperparams(optax.adamw)(learning_rate=0.1),
}
PARTS = {"a": (2, 3), "b": (3,), "c": (), "d": (2, 3)}
DTYPES = {"a": jnp.float32, "b": jnp.bfloat16, "c": jnp.float32, "d": jnp.float16}


class Twins:
    """Parameters with an optimizer of oplib, and the same in plain optax.

    A parameter without ``grad`` keeps its value and its part of the state.
    """

    def __init__(self, transformation):
        self.rule = transformation
        self.params = {
            name: oplib.full(shape, 0.5, dtype=DTYPES[name]).requires_grad_() for name, shape in PARTS.items()
        }
        self.optimizer = Optimizer(transformation, self.params)
        self.arrays = {name: jnp.full(shape, 0.5, DTYPES[name]) for name, shape in PARTS.items()}
        self.state = transformation.init(self.arrays)
        self.count = 0

        @jax.jit  # else halves are rounded after each op
        def update(grads, state, arrays):
            changes, state = transformation.update(grads, state, arrays)
            return optax.apply_updates(arrays, changes), state

        self.update = update

    def give_gradients(self, names=tuple(PARTS)):
        self.count += 1
        for name in names:
            array = jnp.full(PARTS[name], 0.25 * self.count, DTYPES[name])
            self.params[name].grad = oplib.Tensor.from_array(array)

    def step_and_compare(self):
        """Makes a step of both, and asserts that parameters and state are equal."""
        grads = {name: param.grad for name, param in self.params.items()}
        filled = {
            name: jnp.zeros(PARTS[name], DTYPES[name]) if grad is None else grad.detach().clone().array
            for name, grad in grads.items()
        }
        updated, state = self.update(filled, self.state, self.arrays)
        without = {name for name, grad in grads.items() if grad is None}

        def keep(path, before, after):
            keeps = {getattr(key, "key", None) for key in path} & without
            return before if keeps else after.astype(before.dtype)

        if len(without) < len(grads):
            self.arrays = jax.tree_util.tree_map_with_path(keep, self.arrays, updated)
            self.state = jax.tree_util.tree_map_with_path(keep, self.state, state)
        self.optimizer.step()
        self.compare()

    def compare(self):
        for name, param in self.params.items():
            assert param.dtype == DTYPES[name]
            np.testing.assert_allclose(
                np.asarray(param.detach().clone().array, np.float32),
                np.asarray(self.arrays[name], np.float32),
                rtol=1e-5 if DTYPES[name] == jnp.float32 else 1e-2,
                atol=1e-6 if DTYPES[name] == jnp.float32 else 1e-2,
                err_msg=name,
            )
        for mine, its in zip(self.optimizer.state, jax.tree_util.tree_leaves(self.state), strict=True):
            array = mine.detach().clone().array
            assert array.dtype == its.dtype
            assert array.shape == its.shape
            np.testing.assert_allclose(
                np.asarray(array, np.float32), np.asarray(its, np.float32), rtol=1e-2, atol=1e-4
            )


def clear_one(twins):
    twins.params["b"].grad = None


def clear_all(twins):
    twins.optimizer.zero_grad()


def replace_gradient(twins):
    twins.params["a"].grad = oplib.full((2, 3), -3.0)


def give_a_view_as_gradient(twins):
    twins.params["a"].grad = oplib.full((3, 2), -2.0).t()


def write_gradient(twins):
    twins.params["a"].grad.mul_(-2.0)


def share_a_gradient(twins):
    twins.params["c"].grad = twins.params["a"].grad[0, 1]


def assign_data(twins):
    twins.params["a"].data = oplib.full((2, 3), 7.0)
    twins.arrays["a"] = jnp.full((2, 3), 7.0)


def assign_data_of_a_view(twins):
    twins.params["a"].data = oplib.full((4, 3), 6.0)[1:3]
    twins.arrays["a"] = jnp.full((2, 3), 6.0)


def write_parameter(twins):
    with oplib.no_grad():
        twins.params["a"].fill_(5.0)
    twins.arrays["a"] = jnp.full((2, 3), 5.0)


def write_through_a_view(twins):
    with oplib.no_grad():
        twins.params["a"][0].fill_(4.0)
    twins.arrays["a"] = twins.arrays["a"].at[0].set(4.0)


def freeze(twins):
    twins.params["a"].requires_grad_(False)  # its gradient stays, and is used, as in torch


def thaw(twins):
    twins.params["a"].requires_grad_(True)


def load_state(twins):
    other = Optimizer(twins.rule, twins.params)
    twins.optimizer.load_state_dict(other.state_dict())
    twins.state = twins.rule.init(twins.arrays)


def write_state(twins):
    leaves, structure = jax.tree_util.tree_flatten(twins.state)
    for tensor in twins.optimizer.state:
        tensor.zero_()
    twins.state = jax.tree_util.tree_unflatten(structure, [jnp.zeros_like(leaf) for leaf in leaves])


def replace_state(twins):
    leaves, structure = jax.tree_util.tree_flatten(twins.state)
    twins.optimizer.state[:] = [
        oplib.Tensor.from_array(jnp.asarray(leaf) + jnp.ones((), leaf.dtype)) for leaf in leaves
    ]
    ones = [leaf + jnp.ones((), leaf.dtype) for leaf in leaves]
    twins.state = jax.tree_util.tree_unflatten(structure, ones)


def change_class(twins):
    param = twins.params["a"]
    param.__class__ = type("Weight", (oplib.Tensor,), {})


def hold_a_view(twins):
    twins.held = twins.params["d"][1]


def read_arrays(twins):
    twins.held = [tensor.array for tensor in (*twins.params.values(), *twins.optimizer.state)]


CHANGES = {
    change.__name__: change
    for change in (
        clear_one, clear_all, replace_gradient, give_a_view_as_gradient, write_gradient, share_a_gradient,
        assign_data, assign_data_of_a_view, write_parameter, write_through_a_view, freeze, thaw, load_state,
        write_state, replace_state, change_class, hold_a_view, read_arrays,
    )
}  # fmt: skip


@pytest.mark.matrix(3)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("name", ["adam", "momentum"])
def test_a_step_after_a_change_is_that_of_optax(name, change):
    twins = Twins(TRANSFORMATIONS[name])
    for _ in range(2):
        twins.give_gradients()
        twins.step_and_compare()
    for _ in range(2):
        twins.give_gradients()
        change(twins)
        twins.step_and_compare()
        twins.step_and_compare()
    twins.give_gradients(["b", "d"])
    twins.step_and_compare()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_steps_after_many_changes_are_those_of_optax(seed):
    random = np.random.default_rng(seed)
    twins = Twins(TRANSFORMATIONS["adam"])
    for _ in range(30):
        twins.give_gradients(random.choice(list(PARTS), random.integers(1, 5), replace=False))
        if all(param.grad is not None for param in twins.params.values()):
            for _ in range(random.integers(3)):
                list(CHANGES.values())[random.integers(len(CHANGES))](twins)
                twins.give_gradients()
        twins.step_and_compare()


def test_a_changed_hyperparameter_counts_from_the_next_step_on():
    twins = Twins(TRANSFORMATIONS["injected"])
    for rate in (0.1, 0.5, 0.5, 0.0):
        twins.optimizer.hyperparams["learning_rate"] = rate
        twins.state.hyperparams["learning_rate"] = jnp.float32(rate)
        twins.give_gradients()
        twins.step_and_compare()


def test_versions_count_and_what_was_read_keeps_its_value():
    twins = Twins(TRANSFORMATIONS["adam"])
    twins.give_gradients()
    kept = twins.params["a"].detach().clone().array, twins.params["a"].array
    versions = [tensor._version for tensor in (*twins.params.values(), *twins.optimizer.state)]
    for _ in range(3):
        twins.step_and_compare()
    after = [tensor._version for tensor in (*twins.params.values(), *twins.optimizer.state)]
    assert [new - old for new, old in zip(after, versions, strict=True)] == [3] * len(after)
    np.testing.assert_array_equal(*kept)


def test_a_step_invalidates_what_the_tape_has_saved_of_a_parameter():
    twins = Twins(TRANSFORMATIONS["adam"])
    twins.give_gradients()
    loss = (twins.params["a"] ** 2).sum()
    twins.step_and_compare()
    with pytest.raises(AutogradError, match="modified by an inplace operation"):
        loss.backward()


def test_a_view_of_a_parameter_shows_the_step():
    twins = Twins(TRANSFORMATIONS["adam"])
    view = twins.params["a"][0]
    for _ in range(2):
        twins.give_gradients()
        twins.step_and_compare()
    np.testing.assert_array_equal(view.detach(), twins.params["a"].detach()[0])


def write_by_a_step(param):
    optimizer = Optimizer(optax.sgd(1.0), [param])
    param.grad = oplib.full_like(param, 1.0)
    optimizer.step()


def write_by_an_op(param):
    with oplib.no_grad():
        param.sub_(1.0)


@pytest.mark.parametrize("make", [lambda x: x[0], lambda x: x.unbind()[0], lambda x: x.t()], ids=range(3))
@pytest.mark.parametrize("is_restricted", [True, False])
def test_a_step_means_to_views_what_a_write_means(make, is_restricted):
    told = []
    for write in (write_by_an_op, write_by_a_step):
        param = oplib.ones(2, 3).requires_grad_()
        with oplib.set_grad_enabled(not is_restricted):
            view = make(param)
        write(param)
        try:
            told.append((view.tolist(), str(view.grad_fn), (view * 2).sum().requires_grad))
        except AutogradError as error:
            told.append(str(error))
    assert told[0] == told[1]


@pytest.mark.parametrize("is_warm", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("parts", [(slice(0, 2), slice(1, 3)), (slice(0, 2), slice(0, 2))], ids=str)
def test_parameters_that_come_to_share_memory_are_refused(parts, is_warm):
    params = [oplib.ones(2, 3).requires_grad_() for _ in range(2)]
    optimizer = Optimizer(TRANSFORMATIONS["adam"], params)
    for param in params:
        param.grad = oplib.ones(2, 3)
    if is_warm:
        optimizer.step()
    whole = oplib.ones(4, 3)
    for param, part in zip(params, parts, strict=True):
        param.data = whole[part]
    before = [tensor.tolist() for tensor in optimizer.state]
    with pytest.raises(AutogradError, match="share memory"):
        optimizer.step()
    assert [tensor.tolist() for tensor in optimizer.state] == before
    assert whole.tolist() == [[1.0] * 3] * 4


@pytest.mark.parametrize("is_warm", [False, True], ids=["first", "later"])
def test_parameters_that_come_to_be_parts_of_one_memory_are_both_written(is_warm):
    params = [oplib.ones(2, 3).requires_grad_() for _ in range(2)]
    optimizer = Optimizer(optax.sgd(1.0), params)
    for number, param in enumerate(params):
        param.grad = oplib.full((2, 3), float(number))
    if is_warm:
        optimizer.step()
    whole = oplib.ones(4, 3)
    for param, part in zip(params, (whole[:2], whole[2:]), strict=True):
        param.data = part
    optimizer.step()
    assert whole.tolist() == [[1.0] * 3] * 2 + [[0.0] * 3] * 2


def test_a_step_in_a_trace_is_refused_after_warm_ones():
    twins = Twins(TRANSFORMATIONS["adam"])
    twins.give_gradients()
    twins.step_and_compare()

    def run(x):
        twins.optimizer.step()
        return x

    with pytest.raises(oplib.errors.TracingError):
        jax.jit(run)(jnp.ones(2))
    twins.compare()


def test_a_step_of_inference_tensors_is_refused_outside_of_inference_mode():
    twins = Twins(TRANSFORMATIONS["momentum"])
    twins.give_gradients()
    twins.step_and_compare()
    with oplib.inference_mode():
        made = oplib.zeros(2, 3)
    twins.optimizer.state[0] = made
    with pytest.raises(AutogradError, match="inference"):
        twins.optimizer.step()


def test_a_warm_step_runs_few_lines_of_python_a_parameter():
    """Calls are counted, because time depends on the machine."""
    params = [oplib.ones(2).requires_grad_() for _ in range(30)]
    optimizer = Optimizer(TRANSFORMATIONS["adam"], params)
    for param in params:
        param.grad = oplib.ones(2)
    for _ in range(3):
        optimizer.step()
    calls = Counter()
    sys.setprofile(lambda frame, event, _: calls.update([event]) if event == "call" else None)
    try:
        optimizer.step()
    finally:
        sys.setprofile(None)
    assert calls["call"] < 10 * len(params)
