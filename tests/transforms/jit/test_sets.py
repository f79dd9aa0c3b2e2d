"""Tensors in sets, which a compiled function finds as it finds those in lists."""

import pytest

import oplib
from oplib.errors import ArgumentTypeError, TracingError


@pytest.mark.spec("J.2")
@pytest.mark.parametrize("kind", [set, frozenset])
def test_tensors_in_a_captured_set_are_read_and_written(kind):
    def run(wrap):
        tensors = [oplib.full((2,), number) for number in (1.0, 2.0)]
        held = {"group": kind(tensors)}

        def scale(x):
            for one in held["group"]:
                x = x * one
                one.add_(1)
            return x

        step = wrap(scale)
        found = [step(oplib.ones(2)).tolist() for _ in range(3)]
        return found, [one.tolist() for one in tensors], [one._version for one in tensors]

    assert run(oplib.jit) == run(lambda function: function)


@pytest.mark.spec("J.4")
def test_another_tensor_of_the_set_is_read_and_another_length_compiles_again():
    first, group = oplib.ones(2), {oplib.full((2,), 2.0)}
    group.add(first)
    step = oplib.jit(lambda x: sum((x * one for one in group), oplib.zeros(2)))
    assert step(oplib.ones(2)).tolist() == [3, 3]
    group.discard(first)
    group.add(oplib.full((2,), 10.0))
    assert step(oplib.ones(2)).tolist() == [12, 12]
    assert step.compilations == 1
    group.add(oplib.full((2,), 100.0))
    assert step(oplib.ones(2)).tolist() == [112, 112]
    assert step.compilations == 2


@pytest.mark.spec("J.8")
def test_an_error_while_tracing_leaves_the_set_as_it_was():
    one = oplib.ones(2)
    group = {one}

    def fail(x):
        group.add(x * 2)
        group.discard(one)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        oplib.jit(fail)(oplib.ones(2))
    assert group == {one}


@pytest.mark.spec("J.9")
def test_a_tensor_kept_in_a_set_raises_where_it_is_used():
    kept = set()

    def keep(x):
        kept.add(x * 2)

    oplib.jit(keep)(oplib.ones(2))
    with pytest.raises(TracingError, match=r"Got one of keep, which kept it in an item of kept\."):
        kept.pop() + 1


@pytest.mark.spec("J.1")
@pytest.mark.parametrize(
    "make", [lambda: {1, 2}, lambda: {oplib.ones(2)}, lambda: frozenset({oplib.ones(2)})]
)
def test_a_set_is_no_argument(make):
    with pytest.raises(ArgumentTypeError, match=r"'group' is a set, .*Tensors as a list .* as a frozenset"):
        oplib.jit(lambda group: sum(group))(make())


@pytest.mark.spec("J.1")
def test_a_frozenset_of_constants_is_compiled_in():
    step = oplib.jit(lambda x, group: x * len(group))
    assert step(oplib.ones(2), frozenset({1, 2})).tolist() == [2, 2]
    assert step(oplib.ones(2), frozenset({1, 2})).tolist() == [2, 2]
    assert step.compilations == 1
