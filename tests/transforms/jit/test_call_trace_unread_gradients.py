"""A program depends on the gradients from before a call that the function reads, and on no others."""

import pytest

import oplib

pytestmark = pytest.mark.spec("J.2", "J.4")


def make_leaf():
    return oplib.tensor([1.0, 2.0], requires_grad=True)


def show(tensor):
    return None if tensor is None else (tensor.tolist(), tensor._version)


def clear_and_train(weight, x):
    weight.grad = None
    (weight * x).sum().backward()
    with oplib.no_grad():
        weight.sub_(weight.grad)


def clear(weight, _x):
    weight.grad = None


def clear_at_the_end(weight, x):
    with oplib.no_grad():
        weight.add_(x)
    weight.grad = None


def touch_nothing(weight, x):
    return (weight * x).sum().detach()


def exchange(weight, x):
    weight.grad = x * 3


def accumulate(weight, x):
    (weight * x).sum().backward()


def clear_if_there(weight, x):
    if weight.grad is not None:
        weight.grad = None
    (weight * x).sum().backward()


def zero(weight, x):
    if weight.grad is not None:
        weight.grad.zero_()
    (weight * x).sum().backward()


def keep_and_clear(weight, x):
    kept = weight.grad
    weight.grad = None
    (weight * x).sum().backward()
    return None if kept is None else kept + weight.grad


UNREAD = [clear_and_train, clear, clear_at_the_end, touch_nothing, exchange]
READ = [accumulate, clear_if_there, zero, keep_and_clear]


@pytest.mark.parametrize("function", [*UNREAD, *READ])
def test_gradients_from_before_do_what_they_do_without_compilation(function):
    eager, compiled = make_leaf(), make_leaf()
    step = oplib.jit(lambda x: function(compiled, x))
    for turn in range(5):
        x = oplib.full((2,), float(turn + 1))
        for weight in (eager, compiled):
            if turn == 2:
                weight.grad = oplib.tensor([7.0, 8.0])
            elif turn == 3:
                weight.grad = None
        theirs, mine = function(eager, x), step(x)
        assert show(mine) == show(theirs)
        assert (show(compiled), show(compiled.grad)) == (show(eager), show(eager.grad))
    assert step.compilations == (1 if function in UNREAD else 2)
    assert type(compiled) is oplib.Tensor


def test_a_gradient_that_is_captured_elsewhere_too_is_read_there():
    def run(compile_function):
        weight, other = make_leaf(), oplib.ones(2)
        held = [other]

        def step(x):
            weight.grad = None
            (weight * x).sum().backward()
            return held[0] * 2 + weight.grad

        compiled, found = compile_function(step), []
        for turn in range(4):
            found.append(show(compiled(oplib.ones(2))))
            if turn == 1:
                held[0] = weight.grad
        return found, show(weight.grad), show(held[0])

    assert run(oplib.jit) == run(lambda step: step)


def test_a_gradient_that_is_set_to_another_tensor_from_outside_is_that_tensor():
    weight, buffer = make_leaf(), oplib.zeros(2)

    @oplib.jit
    def step(x):
        weight.grad = buffer
        (weight * x).sum().backward()

    for turn in range(3):
        step(oplib.ones(2))
        assert weight.grad is buffer
        assert buffer.tolist() == [turn + 1] * 2
        weight.grad = None
    assert step.compilations == 1


def test_a_copy_that_is_made_inside_is_an_ordinary_tensor():
    weight = make_leaf()
    copied = oplib.jit(lambda: weight.clone().detach())()
    assert type(copied) is oplib.Tensor
    assert type(weight) is oplib.Tensor


def test_an_error_inside_leaves_the_class_of_tensors_as_it_was():
    weight = make_leaf()

    def fail():
        weight.grad = None
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        oplib.jit(fail)()
    assert type(weight) is oplib.Tensor


def test_gradients_that_are_cleared_last_are_no_results_of_the_program():
    sizes = {}
    for name in ("first", "last"):
        weights = [oplib.ones(64, 64, requires_grad=True) for _ in range(3)]

        def step(x, weights=weights, name=name):
            for weight in weights if name == "first" else ():
                weight.grad = None
            for weight in weights:
                x = x @ weight
            x.sum().backward()
            with oplib.no_grad():
                for weight in weights:
                    weight.sub_(weight.grad)
            for weight in weights if name == "last" else ():
                weight.grad = None

        compiled, x = oplib.jit(step), oplib.ones(2, 64)
        for _ in range(2):
            compiled(x)
        assert compiled.compilations == 1
        assert [weight.grad is None for weight in weights] == [name == "last"] * 3
        sizes[name] = compiled.lower(x).compile().memory_analysis().output_size_in_bytes
    kept = sizes["first"] - sizes["last"]
    assert 3 * 64 * 64 * 4 <= kept < 3 * 64 * 64 * 4 + 200  # the gradients, and their places in a tuple
