"""The engine as an object."""

import threading

import pytest

import oplib
from oplib.autograd import Variable, _current_graph_task_execution_order, parity
from oplib.autograd.engine import engine
from oplib.autograd.engine.engine import (
    _EngineBase,
    _ImperativeEngine,
    execute_with_graph_task,
    get_default_saved_variable_hooks,
    get_python_engine,
)
from oplib.autograd.engine.plan import RunPlan
from oplib.autograd.engine.run import Run
from oplib.autograd.graph import saved_tensors_hooks
from oplib.autograd.nodes.accumulate import gradient_edge
from oplib.autograd.nodes.gradient_representation import ARRAYS
from oplib.errors import AutogradError, SavedTensorError
from oplib.modes import modes
from tests.autograd.functions import Split


@pytest.fixture
def x():
    return oplib.tensor(2.0, requires_grad=True)


def run(*args, **kwargs):
    return get_python_engine().run_backward(*args, **kwargs)


@pytest.mark.spec("004.1", "004.2", "004.16")
def test_there_is_one_engine_and_any_number_of_objects_for_it(x):
    assert Variable._execution_engine is get_python_engine()
    assert _ImperativeEngine is _EngineBase

    class Mine(_EngineBase):
        pass

    Mine().run_backward((x * x,), (oplib.tensor(1.0),), False, False, accumulate_grad=True)
    assert x.grad.item() == 4.0


@pytest.mark.spec("004.13")
def test_gradients_of_inputs_come_back_as_a_tuple(x):
    (found,) = run((x * x,), (oplib.tensor(1.0),), False, False, (x,))
    assert found.item() == 4.0


@pytest.mark.spec("004.13")
def test_accumulating_returns_none(x):
    assert run((x * x,), (oplib.tensor(1.0),), False, False, accumulate_grad=True) is None


@pytest.mark.spec("004.10")
def test_names_of_the_arguments(x):
    found = run(
        tensors=(x * x,),
        grad_tensors=(oplib.tensor(1.0),),
        keep_graph=False,
        create_graph=False,
        inputs=(x,),
        allow_unreachable=False,
        accumulate_grad=False,
    )
    assert found[0].item() == 4.0


@pytest.mark.spec("004.10")
def test_the_first_four_arguments_are_required(x):
    with pytest.raises(TypeError, match="missing"):
        run((x * x,), (oplib.tensor(1.0),), False)
    with pytest.raises(TypeError, match="unexpected keyword"):
        run((x * x,), (oplib.tensor(1.0),), False, False, colour=1)


@pytest.mark.spec("004.10")
def test_flags_are_integers_or_booleans(x):
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        run((x * x,), (oplib.tensor(1.0),), None, False)
    run((x * x,), (oplib.tensor(1.0),), 1, 0, accumulate_grad=1)
    assert x.grad.item() == 4.0


@pytest.mark.spec("004.10", "004.11")
@pytest.mark.parametrize(
    ("tensors", "grads", "text"),
    [
        (lambda x: [x], lambda: (None,), "'tensors' is expected to be a tuple. Got list"),
        (lambda x: (x,), lambda: [None], "'grad_tensors' is expected to be a tuple. Got list"),
        (lambda x: (x,), lambda: (None, None), "1 tensors and 2 gradients"),
        (
            lambda x: (3,),
            lambda: (None,),
            "element 0 of tensors is neither a Tensor nor a GradientEdge. Got int",
        ),
        (lambda x: (oplib.tensor(1.0),), lambda: (None,), "element 0 of tensors does not require grad"),
        (lambda x: (x,), lambda: (3,), "element 0 of gradients is not a Tensor. Got int"),
        (lambda x: (x,), lambda: (None,), "element 0 of gradients is not a Tensor. Got None"),
    ],
)
def test_roots_and_their_gradients_are_checked(x, tensors, grads, text):
    with pytest.raises(AutogradError, match=text):
        run(tensors(x), grads(), False, False, accumulate_grad=True)
    assert x.grad is None


@oplib.no_grad()
def sum_without_graph(x):
    return x.sum()


def differentiate_in_a_hook(x):
    y = x * 2.0
    y.register_hook(lambda grad: oplib.autograd.grad(grad * x, x))
    y.backward()


CAUSES = {
    "grad mode is off": (
        lambda x: oplib.no_grad()(lambda: (x * 2.0).backward())(),
        "backward: .*Grad mode is off here, as in no_grad",
    ),
    "a hook": (differentiate_in_a_hook, "grad: .*a backward formula or hook without create_graph=True"),
    "inference mode": (
        lambda x: oplib.inference_mode()(lambda: x * 2.0)().backward(),
        "made in inference_mode",
    ),
    "integers": (
        lambda x: (x > 1.0).sum().backward(),
        r"Got i32\[\]\. Only floating and complex values have derivatives",
    ),
    "inputs": (
        lambda x: oplib.autograd.grad(oplib.ones(()), [oplib.ones(()), oplib.ones(2)]),
        "grad: .*No input of the call requires grad either",
    ),
    "grad mode was off": (
        lambda x: oplib.autograd.grad(sum_without_graph(x), x),
        r"grad: .*computed under no_grad\(\), or detach",
    ),
    "an earlier gradient": (
        lambda x: oplib.autograd.grad(x * x, x)[0].backward(),
        "it comes from a gradient: compute that one with create_graph=True",
    ),
    "the second of two": (
        lambda x: oplib.autograd.backward([x * 2.0, x.detach()]),
        "backward: element 1 of tensors .*no tensor that it is computed from has requires_grad=True",
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_the_error_for_a_root_without_a_graph_says_its_cause(x, cause):
    run, text = CAUSES[cause]
    with pytest.raises(AutogradError, match=text) as caught:
        run(x)
    assert len(str(caught.value)) <= 400


@pytest.mark.spec("004.12")
@pytest.mark.parametrize("inputs", [lambda x: [x], lambda x: None, lambda x: type("T", (tuple,), {})((x,))])
def test_inputs_must_be_exactly_a_tuple(x, inputs):
    with pytest.raises(AutogradError, match="'inputs' must be a tuple"):
        run((x * x,), (oplib.tensor(1.0),), False, False, inputs(x))


@pytest.mark.spec("004.12", "D.10")
def test_inputs_of_other_types_are_refused(x):
    with pytest.raises(AutogradError, match=r"Tensors or GradientEdges\. Got str at position 0"):
        run((x * x,), (oplib.tensor(1.0),), False, False, ("x",))


@pytest.mark.spec("004.8")
def test_neither_accumulating_nor_inputs_is_refused(x):
    with pytest.raises(AutogradError, match="requires non-empty 'inputs'"):
        run((x * x,), (oplib.tensor(1.0),), False, False)


@pytest.mark.spec("004.13")
def test_an_unreachable_input_is_none_if_allowed(x):
    other = oplib.tensor(1.0, requires_grad=True)
    one = oplib.tensor(1.0)
    assert run((x * x,), (one,), False, False, (other,), True) == (None,)
    with pytest.raises(AutogradError, match="allow_unused=True"):
        run((x * x,), (one,), False, False, (other,))


@pytest.mark.spec("E.4")
@pytest.mark.parametrize(
    ("gradient", "expected"),
    [(lambda: oplib.ones(4, 2), 4.0), (lambda: oplib.tensor([1, 1], dtype=oplib.int32), 1.0)],
)
def test_root_gradients_are_summed_and_cast(gradient, expected):
    x = oplib.tensor([1.0, 1.0], requires_grad=True)
    run((x * 1,), (gradient(),), False, False, accumulate_grad=True)
    assert x.grad.tolist() == [expected, expected]


@pytest.mark.spec("E.4", "D.21")
def test_a_root_gradient_that_does_not_fit_raises_before_anything_runs():
    x = oplib.tensor([1.0, 1.0], requires_grad=True)
    y = x * x
    with pytest.raises(AutogradError, match=r"invalid gradient at index 0. Got f32\[3\].*f32\[2\]"):
        run((y,), (oplib.ones(3),), False, False, accumulate_grad=True)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.spec("004.3", "D.17")
def test_no_threads_are_started():
    before = set(threading.enumerate())  # one of an earlier test may end meanwhile
    x = oplib.tensor(1.0, requires_grad=True)
    (x * x).backward()
    assert set(threading.enumerate()) <= before


@pytest.mark.spec("004.7")
def test_the_innermost_hooks_for_saved_tensors_can_be_asked_for():
    assert get_default_saved_variable_hooks() is None
    with saved_tensors_hooks(abs, abs), saved_tensors_hooks(id, repr):
        pair = get_default_saved_variable_hooks()
    assert (pair.pack, pair.unpack) == (id, repr)


@pytest.mark.spec("004.9")
def test_a_run_can_be_executed_from_outside_for_a_future(x):
    y = x * x
    roots = [gradient_edge(y)]
    task = Run(RunPlan(roots, [gradient_edge(x)], capture=True), ARRAYS, keep_graph=False, create_graph=False)
    future = execute_with_graph_task(task, roots, [oplib.tensor(1.0).array])
    assert [one.item() for one in future.result()] == [4.0]
    again = Run(RunPlan(roots), ARRAYS, keep_graph=False, create_graph=False)
    future = execute_with_graph_task(again, roots, [oplib.tensor(1.0).array])
    with pytest.raises(AutogradError, match="a second time"):
        future.result()
    assert modes.state.run is None


@pytest.mark.spec("004.18")
def test_the_module_is_initialised_when_it_is_imported():
    assert parity.init()
    assert engine._ImperativeEngine is type(get_python_engine())


# The order of execution


def run_and_record(root, **options):
    """Returns the order that is told from inside the run, and the one in which nodes ran."""
    told, ran = [], []
    pending, seen = [root.grad_fn], set()
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        node.register_prehook(lambda grads, node=node: ran.append(node))
        node.register_prehook(lambda grads: told.append(_current_graph_task_execution_order()))
        pending += [following for following, _ in node.next_functions if following is not None]
    oplib.autograd.backward(root, **options)
    assert all(one == told[0] for one in told)
    return told[0], ran


@pytest.mark.spec("E.2", "E.5")
def test_the_order_of_execution_is_told_as_it_is(x):
    other = oplib.tensor(1.0, requires_grad=True)
    p, q = Split.apply(x.exp() * other)
    root = (p.sin() * q + other.cos()) * x
    told, ran = run_and_record(root, retain_graph=True)
    assert told == ran
    assert len(told) == 10


@pytest.mark.spec("E.2", "E.5")
def test_the_order_of_a_restricted_run_has_only_what_runs(x):
    other = oplib.tensor(1.0, requires_grad=True)
    root = x.exp() * other.sin()
    told, ran = run_and_record(root, inputs=[other])
    assert told == ran
    assert [node.name().split("::")[-1] for node in told] == [
        "MulBackward0",
        "SinBackward0",
        "AccumulateGrad",
    ]


@pytest.mark.spec("E.5")
def test_the_order_is_asked_for_during_a_run_only():
    with pytest.raises(AutogradError, match="only be called during the backward pass"):
        _current_graph_task_execution_order()


@pytest.mark.spec("004.10")
@pytest.mark.parametrize("keep", [False, True, 0, 1])
def test_saved_values_are_kept_only_if_asked_for(x, keep):
    y = x * x
    run((y,), (oplib.tensor(1.0),), keep, False, accumulate_grad=True)
    if keep:
        run((y,), (oplib.tensor(1.0),), False, False, accumulate_grad=True)
        assert x.grad.item() == 8.0
    with pytest.raises(SavedTensorError, match="a second time"):
        run((y,), (oplib.tensor(1.0),), False, False, accumulate_grad=True)
