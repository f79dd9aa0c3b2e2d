"""The rules of a Function for vmap, and their results."""

from typing import NamedTuple

import pytest

import oplib
from oplib.autograd import Function
from oplib.autograd.user_functions.vmap import call_own_rule, uses_own_rule
from oplib.errors import AutogradError
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
