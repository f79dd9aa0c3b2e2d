"""Layouts of the arrays that a compiled step writes on eight devices, and its number of programs.

The control is the same step by hand in JAX and optax.
"""

import logging
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import oplib
import oplib.nn.functional as F

pytestmark = [pytest.mark.devices(8), pytest.mark.spec("J.14", "J.19")]

TOKENS, WIDTH, ROWS = 16, 8, 8
SHAPES = {"table": (TOKENS, WIDTH), "up": (WIDTH, 16), "down": (16, WIDTH), "bias": (16,)}
SPREADS = {
    "data parallel": ({}, P()),
    "fully sharded": ({"table": P("data", None), "up": P("data", None), "down": P("data")}, None),
    "tensor parallel": ({"table": P("model"), "up": P(None, "model"), "down": P("model", None)}, None),
    "sharded embedding": ({"table": P("model", None)}, None),
    "sharded optimizer state": ({}, P("data")),
}


def make_mesh(kind=AxisType.Auto):
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(kind,) * 2)


def put(array, mesh, *spec):
    return oplib.Tensor.from_array(jax.device_put(array, NamedSharding(mesh, P(*spec))))


def draw(kind, seed=0):
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(size=shape).astype(np.float32) * 0.3 for name, shape in SHAPES.items()}
    inputs = np.arange(ROWS) % 5 if kind is int else rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
    return arrays, inputs, np.arange(ROWS) % TOKENS


def find_logits(arrays, x, relu):
    """The model, for Tensors and arrays; rows of numbers go around the table, which explicit axes refuse."""
    rows = arrays["table"][x] if x.ndim == 1 else x
    hidden = relu(rows @ arrays["up"] + arrays["bias"])
    return (rows + hidden @ arrays["down"]) @ arrays["table"].T


class Training:
    """Parameters on a mesh with their optimizer, and the compiled step."""

    def __init__(self, spread, kind=AxisType.Auto, of=int):
        specs, of_state = SPREADS[spread]
        mesh = make_mesh(kind)
        arrays, x, y = draw(of)
        self.params = {
            name: put(one, mesh, *specs.get(name, P())).requires_grad_() for name, one in arrays.items()
        }
        self.optimizer = oplib.optim.Optimizer(optax.adam(1e-2), self.params)
        for one in self.optimizer.state:
            if of_state is not None and one.ndim:
                one.data = one.to(NamedSharding(mesh, of_state))
        self.x, self.y = put(x, mesh, "data"), put(y, mesh, "data")
        self.step = oplib.jit(self.run)

    def run(self, x, y):
        self.optimizer.zero_grad()
        loss = F.cross_entropy(find_logits(self.params, x, F.relu), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def read_shardings(self):
        named = {**self.params, **dict(zip(self.optimizer._names(), self.optimizer.state, strict=True))}
        return {name: (one.sharding, one.ndim) for name, one in named.items()}


def train_by_hand(of, steps):
    """The losses and parameters of the same steps in JAX and optax, on one device."""
    arrays, x, y = draw(of)
    transformation = optax.adam(1e-2)

    def find_loss(arrays):
        logits = find_logits(arrays, x, jax.nn.relu)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    @jax.jit
    def step(arrays, state):
        loss, grads = jax.value_and_grad(find_loss)(arrays)
        updates, state = transformation.update(grads, state, arrays)
        return loss, grads, optax.apply_updates(arrays, updates), state

    state, losses, grads = transformation.init(arrays), [], {}
    for _ in range(steps):
        loss, grads, arrays, state = step(arrays, state)
        losses.append(loss)
    return losses, arrays, grads


def list_compiled(caplog, name):
    """How often JAX has compiled a function while its log was kept."""
    return [one for one in caplog.messages if re.match(rf"Finished XLA compilation of jit\({name}\)", one)]


@pytest.mark.parametrize(
    ("spread", "kind"),
    [*[(spread, AxisType.Auto) for spread in SPREADS], ("data parallel", AxisType.Explicit)],
)
def test_a_run_is_one_program_and_moves_nothing(spread, kind, caplog):
    of = int if kind is AxisType.Auto else float  # explicit axes refuse the look-up of rows, as in JAX
    training = Training(spread, kind, of)
    before = training.read_shardings()
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        losses = [training.step(training.x, training.y).item() for _ in range(3)]
    assert training.step.compilations == 1
    assert len(list_compiled(caplog, "run")) == 1
    expected, arrays, grads = train_by_hand(of, 3)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    moved = {
        name: (now, was)
        for name, ((now, ndim), (was, _)) in zip(
            before, zip(training.read_shardings().values(), before.values(), strict=True), strict=True
        )
        if not now.is_equivalent_to(was, ndim)
    }
    assert not moved
    for name, one in training.params.items():
        np.testing.assert_allclose(one.detach().numpy(), arrays[name], rtol=1e-4, atol=2e-5)
        np.testing.assert_allclose(one.grad.numpy(), grads[name], rtol=1e-4, atol=1e-5)
        assert one.grad.sharding.is_equivalent_to(before[name][0], one.ndim), name


def test_what_is_written_from_elsewhere_takes_the_layout_of_the_tensor_that_is_written():
    mesh = make_mesh()
    arrays = [np.arange(64.0, dtype=np.float32).reshape(8, 8) + one for one in range(3)]
    first, second, third = put(arrays[0], mesh, "data"), put(arrays[1], mesh, "model"), put(arrays[2], mesh)

    @oplib.jit
    def step(x):
        sum_ = first + x
        first.copy_(sum_)
        second.copy_(sum_)  # one value in two layouts
        third.zero_()  # a program with no operand on the mesh for it
        return sum_

    found = step(put(arrays[1], mesh, None, "model"))
    expected = arrays[0] + arrays[1]
    for one, spec, right in ((first, P("data"), expected), (second, P("model"), expected), (third, P(), 0)):
        assert one.sharding.is_equivalent_to(NamedSharding(mesh, spec), 2)
        np.testing.assert_array_equal(one.numpy(), np.broadcast_to(right, (8, 8)))
    np.testing.assert_array_equal(found.numpy(), expected)


def test_one_gradient_of_two_parameters_has_the_layout_of_each():
    mesh = make_mesh()
    one, other = (put(np.ones((8, 8), np.float32), mesh, name).requires_grad_() for name in ("data", "model"))

    @oplib.jit
    def step():
        (one + other).sum().backward()

    step()
    for tensor, name in ((one, "data"), (other, "model")):
        assert tensor.grad.sharding.is_equivalent_to(NamedSharding(mesh, P(name)), 2)
        np.testing.assert_array_equal(tensor.grad.numpy(), np.ones((8, 8)))


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_a_backward_outside_gives_gradients_in_the_layouts_of_parameters(kind):
    mesh = make_mesh(kind)
    right = np.arange(64.0, dtype=np.float32).reshape(8, 8)
    weight = put(right, mesh, "model").requires_grad_()
    x = put(np.ones((4, 8), np.float32), mesh)
    oplib.jit(lambda: (x @ weight).square().sum())().backward()
    assert weight.grad.sharding.is_equivalent_to(weight.sharding, 2)
    expected = jax.grad(lambda w: jnp.square(jnp.ones((4, 8)) @ w).sum())(right)
    np.testing.assert_allclose(weight.grad.numpy(), expected, rtol=1e-6)


# One program -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_layouts_that_place_every_item_alike_share_a_program(kind, caplog):
    mesh = jax.make_mesh((8, 1), ("data", "none"), axis_types=(kind,) * 2)
    ones = np.ones((8, 8), np.float32)
    at = {"weight": put(ones, mesh, "data", None)}

    @oplib.jit
    def scaled(x, y):
        return x * at["weight"] + y

    alike = [P("data"), P("data", None), P(("data",), None)]
    if kind is AxisType.Auto:  # types of explicit axes name an axis of one device too
        alike.append(P("data", "none"))
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for spec in alike:
            at["weight"] = put(ones, mesh, *spec)
            assert scaled(at["weight"], at["weight"].array).sum().item() == 128
    assert scaled.compilations == 1
    assert len(list_compiled(caplog, "scaled")) == 1
    assert "a compiled program serves" not in scaled.explain(put(ones, mesh, None, "data"), ones)


def test_a_count_of_steps_on_no_device_moves_to_the_mesh_once(caplog):
    mesh = make_mesh()
    weight, count = put(np.ones((8, 4), np.float32), mesh, "data"), oplib.zeros(())

    @oplib.jit
    def step():
        weight.mul_(2)
        count.add_(1)

    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for _ in range(4):
            step()
    assert (count.item(), step.compilations, len(list_compiled(caplog, "step"))) == (4, 2, 2)
    assert count.sharding.is_equivalent_to(NamedSharding(mesh, P()), 0)


def test_explain_names_the_layouts_that_differ():
    mesh, ones = make_mesh(), np.ones((8, 8), np.float32)
    at = {"weight": put(ones, mesh, "data")}
    scaled = oplib.jit(lambda x: x * at["weight"])
    x = put(ones, mesh)
    scaled(x)
    spread = "over (data=4, model=2)"
    at["weight"] = put(ones, mesh, "model")
    assert scaled.explain(x).endswith(f"is laid out as P('model',) {spread}, and was as P('data',) {spread}")
    at["weight"] = put(ones, mesh, "data", None)
    assert scaled.explain(x).endswith("a compiled program serves this call")
    at["weight"] = oplib.ones(8, 8)
    now = jax.devices()[0]
    assert scaled.explain(x).endswith(f"is laid out as {now}, and was as P('data',) {spread}")


def test_explain_names_the_layouts_of_arrays_that_are_arguments():
    mesh, ones = make_mesh(), np.ones((8, 8), np.float32)
    doubled = oplib.jit(lambda x: x * 2)
    doubled(jax.device_put(ones, NamedSharding(mesh, P("data"))))
    spread = "over (data=4, model=2)"
    text = doubled.explain(jax.device_put(ones, NamedSharding(mesh, P("model"))))
    assert f"argument 'x' is float32[8, 8] laid out as P('model',) {spread}" in text
    assert f"and was float32[8, 8] laid out as P('data',) {spread}" in text
