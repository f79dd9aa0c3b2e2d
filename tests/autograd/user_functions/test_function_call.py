"""The parameters of a forward: which jvp and vmap fit them is known before the first call where it can be."""

import pytest

import oplib
from oplib.autograd import Function
from oplib.errors import GradientTypeError

OPEN = [lambda ctx, x, y=None: x * 2, lambda ctx, *values: values[0] * 2, lambda ctx, x, *rest: x * 2]


def multiply(ctx, x, y):
    return x * y


def make(forward, **rules):
    members = {name: staticmethod(rule) for name, rule in {"forward": forward, **rules}.items()}
    return type("Made", (Function,), {**members, "generate_vmap_rule": False})


@pytest.mark.parametrize(
    "rules",
    [
        {"jvp": lambda ctx, tangent: tangent},
        {"jvp": lambda ctx, tangent, other, third: tangent},
        {"vmap": lambda info, in_dims, x: (x, 0)},
        {"vmap": lambda info, in_dims, x, y, z: (x, 0)},
    ],
)
def test_a_rule_with_other_parameters_than_a_fixed_forward_is_refused_at_the_first_call(rules):
    x = oplib.ones(2, requires_grad=True)
    (name,) = rules
    with pytest.raises(GradientTypeError, match=f"Made: its {name}"):
        make(multiply, **rules).apply(x, x)


@pytest.mark.parametrize("forward", OPEN)
@pytest.mark.parametrize(
    "rules", [{"jvp": lambda ctx, tangent: tangent}, {"vmap": lambda info, in_dims, x: (x, 0)}]
)
def test_a_rule_may_take_only_the_arguments_that_are_passed(forward, rules):
    x = oplib.ones(2, requires_grad=True)
    assert make(forward, **rules).apply(x).tolist() == [2, 2]


@pytest.mark.parametrize("jvp", [lambda ctx, *tangents: tangents[0], lambda ctx, a, b, c=None: a])
def test_a_rule_may_have_more_parameters_than_a_fixed_forward_if_they_are_optional(jvp):
    x = oplib.ones(2, requires_grad=True)
    assert make(multiply, jvp=jvp).apply(x, x).tolist() == [1, 1]
