"""Checkpoints in the bodies of control flow, beside ``jax.checkpoint`` in ``jax.lax``."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

import oplib
import oplib.nn.functional as F
from oplib.autograd import forward_ad
from oplib.errors import AutogradError, TracingError
from oplib.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

pytestmark = pytest.mark.spec("J.15")

LAYERS, ROWS, WIDTH = 6, 32, 16
RNG = np.random.default_rng(0)
UP = RNG.normal(size=(LAYERS, WIDTH, 8 * WIDTH)).astype(np.float32) * 0.2
DOWN = RNG.normal(size=(LAYERS, 8 * WIDTH, WIDTH)).astype(np.float32) * 0.2
X = RNG.normal(size=(ROWS, WIDTH)).astype(np.float32)
matmul = oplib.ops.oplib.matmul.default


def block(h, up, down):
    return h + (h @ up).tanh() @ down


def jax_block(h, up, down):
    return h + jnp.tanh(h @ up) @ down


def run_checkpoint(function, *args, **options):
    return checkpoint(function, *args, use_reentrant=False, **options)


def select(policy):
    return {"context_fn": functools.partial(create_selective_checkpoint_contexts, policy)}


def make_step(call):
    """A compiled step over layers, and its parameters."""
    up, down = (oplib.tensor(one, requires_grad=True) for one in (UP, DOWN))

    @oplib.jit
    def step(x):
        up.grad = down.grad = None
        h, _ = oplib.scan(lambda h, layer: (call(h, *layer), None), x, (up, down))
        (h * h).mean().backward()

    return step, (up, down)


def make_jax_step(body):
    def find_loss(params, x):
        h, _ = jax.lax.scan(lambda h, layer: (body(h, *layer), None), x, params)
        return (h * h).mean()

    return jax.jit(jax.grad(find_loss))


def measure(lowered):
    """The products of a program, and the memory that it takes beside operands and results."""
    products = lowered.as_text().count("stablehlo.dot_general")
    return products, lowered.compile().memory_analysis().temp_size_in_bytes


POLICIES = {
    "none": ({}, None),
    "products": (select([matmul]), jax.checkpoint_policies.dots_saveable),
    "all": (
        select(lambda ctx, op, *args, **kwargs: CheckpointPolicy.PREFER_SAVE),
        jax.checkpoint_policies.everything_saveable,
    ),
    "nothing": (select(lambda *args, **kwargs: False), jax.checkpoint_policies.nothing_saveable),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_scan_over_checkpoints_computes_again_what_jax_does(name):
    options, policy = POLICIES[name]
    step, params = make_step(lambda *args: run_checkpoint(block, *args, **options))
    control = make_jax_step(jax.checkpoint(jax_block, prevent_cse=False, policy=policy))
    products, memory = measure(step.lower(oplib.tensor(X)))
    expected_products, expected_memory = measure(control.lower((UP, DOWN), X))
    assert products == expected_products
    assert memory <= 1.1 * expected_memory
    step(oplib.tensor(X))
    for param, right in zip(params, control((UP, DOWN), X), strict=True):
        np.testing.assert_allclose(param.grad.numpy(), right, rtol=1e-4, atol=1e-6)


def test_a_checkpoint_saves_less_and_computes_more_than_none():
    more, less = (measure(make_step(call)[0].lower(oplib.tensor(X))) for call in (
        block, lambda *args: run_checkpoint(block, *args)
    ))  # fmt: skip
    assert less[0] == more[0] + 1
    assert 2 * less[1] < more[1]


def test_a_policy_may_offload_results():
    def ask(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_CPU_OFFLOAD if op is matmul else CheckpointPolicy.MUST_RECOMPUTE

    def named_block(h, up, down):
        hidden = jnp.tanh(checkpoint_name(h @ up, "product"))
        return h + checkpoint_name(hidden @ down, "product")

    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["product"],
        offload_src="device",
        offload_dst="pinned_host",
    )
    control = make_jax_step(jax.checkpoint(named_block, prevent_cse=False, policy=policy))
    step, params = make_step(lambda *args: run_checkpoint(block, *args, **select(ask)))
    found, right = measure(step.lower(oplib.tensor(X))), measure(control.lower((UP, DOWN), X))
    assert found[0] == right[0]
    assert found[1] <= 1.1 * right[1]
    step(oplib.tensor(X))
    for param, gradient in zip(params, control((UP, DOWN), X), strict=True):
        np.testing.assert_allclose(param.grad.numpy(), gradient, rtol=1e-4, atol=1e-6)


# What a region may be -------------------------------------------------------------------------------------


def list_gradients(run, *arrays):
    leaves = [oplib.tensor(one, requires_grad=True) for one in arrays]
    value = run(*leaves)
    return [value.detach().numpy(), *[one.numpy() for one in oplib.autograd.grad(value, leaves)]]


def use_captured(call, x, w):
    return oplib.scan(lambda c, row: (call(lambda c: (c * w).sin() + row, c), None), w * 2, x)[0].sum()


def use_structures(call, x, w):
    def region(parts, scale, *, shift, name):
        assert name == "a"
        return {"sum": parts["c"] * scale + shift, "rest": [None, 2.5, parts["c"].cos()]}

    def body(c, row):
        found = call(region, {"c": c}, 3, shift=row * w, name="a")
        return found["sum"].sin(), found["rest"][1] * found["rest"][2]

    carry, kept = oplib.scan(body, w * 2, x)
    return (carry * kept).sum()


def nest(call, x, w):
    def region(c, row):
        return call(lambda c: (c * row).sin(), c).cos() * w

    return oplib.scan(lambda c, row: (call(region, c, row), None), w * 2, x)[0].sum()


def use_cond(call, x, w):
    return oplib.cond(x.sum() > 0, lambda x: call(lambda x: (x * w).sin(), x), lambda x: x * w, x).sum()


def scan_inside(call, x, w):
    def region(c, row):
        return oplib.scan(lambda c, _: ((c * row).sin(), None), c, length=2)[0]

    return oplib.scan(lambda c, row: (call(region, c, row), None), w * 2, x)[0].sum()


def detach_inside(call, x, w):
    def region(c, row):
        with oplib.no_grad():
            still = c * row
        return c.sin() * still + (c * w).detach() * row

    return oplib.scan(lambda c, row: (call(region, c, row), None), w * 2, x)[0].sum()


def write_inside(call, x, w):
    def region(c, row):
        made = c * row
        made[0] = 3.0
        return made.mul_(c)

    return oplib.scan(lambda c, row: (call(region, c, row), None), w * 2, x)[0].sum()


def differentiate_inside(call, x, w):
    def body(c, row):
        start = c * 1.0
        value = call(lambda c: (c * c * row).sum(), start)
        return oplib.autograd.grad(value, [start], create_graph=True)[0], None

    return oplib.scan(body, w * 2, x)[0].sum()


class Tripled(oplib.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad * ctx.saved_tensors[0].cos()


def use_function(call, x, w):
    return oplib.scan(lambda c, row: (call(lambda c: Tripled.apply(c * w) + row, c), None), w * 2, x)[0].sum()


REGIONS = [
    use_captured, use_structures, nest, use_cond, scan_inside, detach_inside, write_inside,
    differentiate_inside, use_function,
]  # fmt: skip


@pytest.mark.parametrize("region", REGIONS)
def test_gradients_are_those_without_the_checkpoint(region):
    arrays = RNG.normal(size=(3, 4)).astype(np.float32) + 1, RNG.normal(size=4).astype(np.float32)
    plain = functools.partial(region, lambda f, *args, **kwargs: f(*args, **kwargs))
    expected = list_gradients(plain, *arrays)
    for run in (region, lambda *args: oplib.jit(region)(*args)):
        found = list_gradients(functools.partial(run, run_checkpoint), *arrays)
        for one, right in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, right, rtol=2e-5, atol=1e-6)


def test_second_derivatives_and_forward_mode_go_through():
    x, w = oplib.tensor(X[:3, :4]), oplib.tensor(X[3, :4], requires_grad=True)

    def differentiate_twice(call):
        value = use_captured(call, x, w)
        (first,) = oplib.autograd.grad(value, [w], create_graph=True)
        (second,) = oplib.autograd.grad((first * first).sum(), [w])
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(w.detach(), oplib.ones(4))
            moved = forward_ad.unpack_dual(use_captured(call, x, dual)).tangent
        return first.detach(), second, moved

    plain = differentiate_twice(lambda f, *args: f(*args))
    for one, right in zip(differentiate_twice(run_checkpoint), plain, strict=True):
        np.testing.assert_allclose(one.numpy(), right.numpy(), rtol=1e-5)


def test_a_while_loop_runs_checkpoints():
    double = functools.partial(run_checkpoint, lambda c: c * 2)
    found = oplib.while_loop(lambda c: c.sum() < 50, double, oplib.ones(3))
    assert found.tolist() == [32.0] * 3


def test_numbers_drawn_from_a_key_are_the_same_again():
    def run(call, keys):
        x = oplib.ones(64, requires_grad=True)

        def body(c, key):
            return call(lambda c: F.dropout(c * c, 0.5, generator=oplib.Generator.from_key(key)), c), None

        value = oplib.scan(body, x, keys)[0].sum()
        return value.item(), oplib.autograd.grad(value, [x])[0].numpy()

    keys = jax.random.split(jax.random.key(1), 2)
    plain, found = run(lambda f, *args: f(*args), keys), run(run_checkpoint, keys)
    assert found[0] == plain[0] > 0
    np.testing.assert_array_equal(found[1], plain[1])


def test_the_function_runs_once_for_each_trace():
    calls = []

    def region(c):
        calls.append(1)
        return c.sin()

    x = oplib.ones(2, requires_grad=True)
    oplib.scan(lambda c, _: (run_checkpoint(region, c), None), x, length=2)[0].sum().backward()
    assert len(calls) <= 2
    expected = jax.grad(lambda x: jnp.sin(jnp.sin(x)).sum())(jnp.ones(2))
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)


# Bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("region", "error", "text"),
    [
        (lambda c: c.mul_(2), AutogradError, "checkpoint: 'function': the function writes into an argument"),
        (lambda c: c * float(c.sum()), TracingError, "value"),
        (lambda c: _add_hook(c * 2), AutogradError, "checkpoint: 'function': the function registers a hook"),
    ],
)
def test_what_a_region_in_a_body_may_not_do(region, error, text):
    x = oplib.ones(3, requires_grad=True)
    with pytest.raises(error, match=text):
        oplib.scan(lambda c, _: (run_checkpoint(region, c * 1.0), None), x, length=2)


def _add_hook(tensor):
    tensor.register_hook(lambda grad: grad)
    return tensor * 1.0
