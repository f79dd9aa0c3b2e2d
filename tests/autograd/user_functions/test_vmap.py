"""The rules of a Function for vmap, and their results."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.autograd import Function
from oplib.autograd.user_functions.vmap import call_own_rule, uses_own_rule
from oplib.errors import AutogradError
from oplib.tensor import upcalls
from tests.autograd.functions import make_function


class Info(NamedTuple):
    batch_size: int
    randomness: str = "error"


def make(vmap=None, **members):
    """Makes a Function of the style that can be mapped, with the rules given."""
    return make_function(
        lambda x: x * 2, setup_context=lambda ctx, inputs, output: None, vmap=vmap, **members
    )


def double(info, in_dims, x):
    return x * 2, in_dims[0]


def test_one_of_the_two_rules_is_used():
    assert uses_own_rule(make(double))
    assert not uses_own_rule(make(generate_vmap_rule=True))


def test_both_rules_are_refused():
    with pytest.raises(
        AutogradError, match=r"Made: it has both generate_vmap_rule=True and an overridden vmap"
    ):
        uses_own_rule(make(double, generate_vmap_rule=True))


def test_no_rule_is_refused():
    with pytest.raises(
        AutogradError, match=r"Made: it does not have vmap support.*or set generate_vmap_rule"
    ):
        uses_own_rule(make())


def test_a_forward_that_takes_ctx_is_refused():
    function = type(
        "Old", (Function,), {"forward": staticmethod(lambda ctx, x: x), "vmap": staticmethod(double)}
    )
    with pytest.raises(AutogradError, match=r"Old: under vmap a Function must override the setup_context"):
        uses_own_rule(function)


def test_a_rule_gets_the_batch_and_its_dimensions():
    seen = []

    def rule(info, in_dims, x, k):
        seen.append((info.batch_size, info.randomness, in_dims, k))
        return (x * 2, [x * 3]), (1, [None])

    x = oplib.ones(2, 3)
    outputs, dims, spec = call_own_rule(make(rule), Info(3), (1, None), (x, 5))
    assert seen == [(3, "error", (1, None), 5)]
    assert [output.tolist()[0][0] for output in outputs] == [2.0, 3.0]
    assert dims == [1, None]
    assert oplib.pytree.tree_unflatten(dims, spec) == (1, [None])


def test_none_stands_for_outputs_without_a_batch():
    outputs, dims, _ = call_own_rule(
        make(lambda info, dims, x: ((x, x), None)), Info(3), (0,), (oplib.ones(3),)
    )
    assert (len(outputs), dims) == (2, [None, None])


@pytest.mark.parametrize("returned", [3, (1,), [1, 0]])
def test_a_rule_that_returns_no_pair_is_refused(returned):
    with pytest.raises(AutogradError, match=r"Expected the vmap staticmethod to have two returns"):
        call_own_rule(make(lambda info, dims, x: returned), Info(3), (0,), (oplib.ones(3),))


@pytest.mark.parametrize("dims", [(0, 0), "x", 1.0, True, [0]])
def test_dimensions_that_do_not_fit_the_output_are_refused(dims):
    with pytest.raises(
        AutogradError, match=r"returned an incompatible \(output, out_dims\) tuple. Got out_dims="
    ):
        call_own_rule(make(lambda info, in_dims, x: (x, dims)), Info(3), (0,), (oplib.ones(3),))


def make_marked():
    """Makes a Function whose rules give 7 times the derivative, so that a result tells whether they ran."""
    return make_function(
        lambda x: x * x,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        backward=lambda ctx, grad: grad * 14.0 * ctx.saved_tensors[0],
        generate_vmap_rule=True,
    )


def test_maps_alone_around_a_call_run_its_forward_as_it_is(monkeypatch):
    marked = make_marked()
    monkeypatch.setattr(upcalls, "apply_as_op", None)
    x = oplib.arange(6.0).reshape(2, 3)
    assert oplib.vmap(marked.apply)(x).tolist() == (x * x).tolist()
    assert oplib.vmap(oplib.vmap(marked.apply), in_dims=1)(x).tolist() == (x * x).T.tolist()


@pytest.mark.parametrize(
    "nest",
    [
        lambda call: jax.grad(lambda x: call(x).sum()),
        lambda call: jax.jit(jax.grad(lambda x: call(x).sum())),
        lambda call: jax.grad(lambda x: jax.jit(call)(x).sum()),
        lambda call: lambda x: jax.vjp(call, x)[1](jnp.ones(3))[0],
        lambda call: lambda x: jax.vmap(jax.grad(lambda x: call(x).sum()))(x[None])[0],
        lambda call: lambda x: jax.grad(lambda x: jax.vmap(call)(x).sum())(x[None])[0],
    ],
)
@pytest.mark.parametrize("is_mapped_twice", [False, True])
def test_jax_finds_the_rule_of_a_mapped_call_that_it_differentiates(nest, is_mapped_twice):
    mapped = oplib.vmap(make_marked().apply)
    if is_mapped_twice:
        once = oplib.vmap(mapped)
        mapped = lambda x: once(x[None])[0]  # noqa: E731
    gradient = nest(lambda array: mapped(oplib.Tensor.from_array(array)).array)(jnp.arange(3.0))
    assert gradient.tolist() == [0.0, 14.0, 28.0]


def test_jax_finds_the_rule_where_it_differentiates_inside_of_a_map():
    marked = make_marked()

    def differentiate(x):
        gradient = jax.grad(lambda array: marked.apply(oplib.Tensor.from_array(array)).array)(x.array)
        return oplib.Tensor.from_array(gradient)

    assert oplib.vmap(differentiate)(oplib.arange(3.0)).tolist() == [0.0, 14.0, 28.0]


def test_a_mapped_call_writes_and_counts_as_one_that_is_not_mapped():
    def forward(x):
        return x.mul_(3.0)

    tripled = make_function(
        forward, setup_context=lambda ctx, inputs, output: ctx.mark_dirty(*inputs), generate_vmap_rule=True
    )
    x = oplib.ones(2)
    result = oplib.vmap(lambda item: tripled.apply(item) + item)(x)
    assert (result.tolist(), x.tolist()) == ([6.0, 6.0], [3.0, 3.0])
