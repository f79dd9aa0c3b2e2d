"""The engine: the same programs on torch and oplib."""

import pytest

from tests.autograd.branches import run_two_branches

from .programs import Programs, get_edge, leaf

PROGRAMS = Programs()


def engine(lib):
    return lib.autograd.Variable._execution_engine


def task_id(lib):
    owner = lib._C if hasattr(lib, "_C") else lib.autograd
    return owner._current_graph_task_id()


def will_execute(lib, node):
    owner = lib._C if hasattr(lib, "_C") else lib.autograd
    return owner._will_engine_execute_node(node)


@PROGRAMS.add
@pytest.mark.spec("E.2")
def order_of_nodes(lib):
    return run_two_branches(lib)


@PROGRAMS.add
@pytest.mark.spec("E.1")
def ids(lib):
    x = leaf(lib, 1)
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append(task_id(lib)))
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return seen[1] - seen[0], task_id(lib)


@PROGRAMS.add
@pytest.mark.spec("E.5")
def execution_of_nodes(lib):
    x, y = leaf(lib, 1), leaf(lib, 1)
    a, b = x * 2, y * 2
    top = (a * b).sum()
    seen = []
    top.register_hook(lambda g: seen.extend(will_execute(lib, one.grad_fn) for one in (a, b)))
    lib.autograd.grad(top, a, retain_graph=True)
    top.backward()
    return seen


@PROGRAMS.add
@pytest.mark.spec("E.5")
def execution_of_a_captured_leaf(lib):
    x = leaf(lib, 1)
    y = x * 2
    y.register_hook(lambda g: will_execute(lib, get_edge(lib, x).node))
    lib.autograd.grad(y.sum(), x)


@PROGRAMS.add
@pytest.mark.spec("E.5")
def execution_asked_outside(lib):
    will_execute(lib, (leaf(lib, 1) * 2).grad_fn)


@PROGRAMS.add
@pytest.mark.spec("E.5")
def execution_of_a_number(lib):
    will_execute(lib, 3)


@PROGRAMS.add
@pytest.mark.spec("E.6")
def freed_by_a_failing_run(lib):
    x = leaf(lib, 2)
    below = x * x
    middle = below * 1
    handle = middle.register_hook(lambda g: 1 / 0)
    top = (middle * middle).sum()
    kinds = []
    for _ in range(2):
        try:
            top.backward()
        except Exception as error:  # noqa: BLE001  its kind is the result
            kinds.append(isinstance(error, RuntimeError))
    handle.remove()
    middle.sum().backward()
    return kinds, x.grad


@PROGRAMS.add
@pytest.mark.spec("004.14")
def callbacks(lib):
    x = leaf(lib, 1)
    log = []

    def queue(g):
        engine(lib).queue_callback(
            lambda: log.append("first") or engine(lib).queue_callback(lambda: log.append("nested"))
        )
        engine(lib).queue_callback(lambda: log.append("second"))

    y = x * 2
    y.register_hook(queue)
    x.register_hook(lambda g: log.append("leaf"))
    y.sum().backward()
    return log


@PROGRAMS.add
@pytest.mark.spec("004.14")
def callback_outside(lib):
    engine(lib).queue_callback(lambda: None)


@PROGRAMS.add
@pytest.mark.spec("004.14")
def callback_that_cannot_be_called(lib):
    y = leaf(lib, 1) * 2
    y.register_hook(lambda g: engine(lib).queue_callback(3))
    y.sum().backward()


@PROGRAMS.add
@pytest.mark.spec("004.14")
def callback_that_fails(lib):
    x = leaf(lib, 1)
    y = x * 2
    y.register_hook(lambda g: engine(lib).queue_callback(lambda: {}["key"]))
    y.sum().backward()


@PROGRAMS.add
@pytest.mark.spec("E.8")
def nested_backward(lib):
    x = leaf(lib, 3)
    inner = leaf(lib, 2)
    log = []

    def hook(g):
        with lib.enable_grad():
            (inner * inner).sum().backward()
        log.append((inner.grad.tolist(), task_id(lib) >= 0))

    y = x * x
    y.register_hook(hook)
    y.sum().backward()
    return log, x.grad


@PROGRAMS.add
@pytest.mark.spec("E.3")
def grad_mode_inside(lib):
    x = leaf(lib, 1)
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append(lib.is_grad_enabled()))
    lib.autograd.grad(y.sum(), x, create_graph=True)
    with lib.no_grad():
        lib.autograd.grad(y, x, lib.ones(1), create_graph=True)
    lib.autograd.grad(y.sum(), x)
    return seen, lib.is_grad_enabled()


RUNS = {
    "accumulate": lambda lib, x: (((x * x).sum(),), (lib.ones(()),), False, False, (), True, True),
    "inputs": lambda lib, x: (((x * x).sum(),), (lib.ones(()),), False, False, (x,)),
    "list of tensors": lambda lib, x: ([x], (None,), False, False),
    "list of gradients": lambda lib, x: ((x,), [None], False, False),
    "counts": lambda lib, x: ((x,), (None, None), False, False),
    "number": lambda lib, x: ((3,), (None,), False, False, (), True, True),
    "constant": lambda lib, x: ((lib.ones(1),), (lib.ones(1),), False, False, (), True, True),
    "number as gradient": lambda lib, x: ((x,), (3,), False, False, (), True, True),
    "no gradient": lambda lib, x: ((x,), (None,), False, False, (), True, True),
    "inputs in a list": lambda lib, x: ((x,), (lib.ones(1),), False, False, [x]),
    "number as input": lambda lib, x: ((x * 1,), (lib.ones(1),), False, False, (3,)),
    "flag none": lambda lib, x: ((x,), (lib.ones(1),), None, False),
    "no inputs": lambda lib, x: ((x * 1,), (lib.ones(1),), False, False),
    "too few": lambda lib, x: ((x,),),
    "gradient to sum": lambda lib, x: ((x * 1,), (lib.ones(4, 1),), False, False, (x,)),
    "gradient to cast": lambda lib, x: ((x * 1,), (lib.ones(1, dtype=lib.int32),), False, False, (x,)),
    "gradient of wrong shape": lambda lib, x: ((x * 1,), (lib.ones(3, 7),), False, False, (x,)),
    "integers as flags": lambda lib, x: ((x * 1,), (lib.ones(1),), 1, 0, (x,), 0, 0),
}


@pytest.mark.spec("004.10", "004.11", "004.12", "004.13")
@pytest.mark.parametrize("case", RUNS)
def test_run_backward_does_what_torchs_does(assert_agrees, case):
    def check(lib):
        x = leaf(lib, 2)
        return engine(lib).run_backward(*RUNS[case](lib, x)), x.grad

    assert_agrees(check)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_on_torch(assert_agrees, name):
    assert_agrees(PROGRAMS[name])
