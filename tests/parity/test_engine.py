"""Nodes, hooks and the engine: the same programs on torch and oplib."""

import pytest

from .programs import Programs, leaf

PROGRAMS = Programs()


def engine(lib):
    return lib.autograd.Variable._execution_engine


def edge(lib, tensor):
    return lib.autograd.graph.get_gradient_edge(tensor)


def task_id(lib):
    owner = lib._C if hasattr(lib, "_C") else lib.autograd
    return owner._current_graph_task_id()


def will_execute(lib, node):
    owner = lib._C if hasattr(lib, "_C") else lib.autograd
    return owner._will_engine_execute_node(node)


# Nodes


@PROGRAMS.add
@pytest.mark.spec("000.2")
def node_is_abstract(lib):
    lib.autograd.graph.Node()


@PROGRAMS.add
@pytest.mark.spec("000.2")
def kinds_of_nodes(lib):
    Node = lib.autograd.graph.Node
    x = leaf(lib, 1)

    class Sub(Node):
        pass

    nodes = [(x * 2).grad_fn, x.exp().grad_fn, edge(lib, x).node]
    return (
        [isinstance(node, Node) for node in nodes],
        [isinstance(node, Sub) for node in nodes],
        isinstance(x, Node),
        issubclass(int, Node),
        issubclass(Sub, Node),
    )


@PROGRAMS.add
@pytest.mark.spec("000.3", "D.1")
def names_of_nodes(lib):
    x = leaf(lib, 1)
    y = (x * 2).exp()
    accumulator = edge(lib, x).node
    return (
        y.grad_fn,
        y.grad_fn.next_functions,
        accumulator,
        type(accumulator).__name__,
        accumulator.next_functions,
    )


@PROGRAMS.add
@pytest.mark.spec("000.4")
def next_functions_of_constants(lib):
    return (leaf(lib, 1) * lib.ones(1)).grad_fn.next_functions


@PROGRAMS.add
@pytest.mark.spec("000.5")
def metadata(lib):
    node = (leaf(lib, 1) * 2).grad_fn
    node.metadata["key"] = 1
    return node.metadata, node.metadata is node.metadata


@PROGRAMS.add
@pytest.mark.spec("000.5")
def metadata_is_not_called(lib):
    (leaf(lib, 1) * 2).grad_fn.metadata()


@PROGRAMS.add
@pytest.mark.spec("000.9")
def sequence_numbers(lib):
    x = leaf(lib, 1)
    first, second = (x * 2).grad_fn, (x * 3).grad_fn
    return second._sequence_nr() - first._sequence_nr(), edge(lib, x).node._sequence_nr()


@PROGRAMS.add
@pytest.mark.spec("000.9")
def input_metadata(lib):
    (one,) = (leaf(lib, 1, 2) * 2).grad_fn._input_metadata
    return list(one.shape)


@PROGRAMS.add
@pytest.mark.spec("000.6")
def hook_dictionary_of_no_tensor(lib):
    (leaf(lib, 1) * 2).grad_fn._register_hook_dict(3)


@PROGRAMS.add
@pytest.mark.spec("000.11", "000.12")
def edges(lib):
    x = leaf(lib, 1)
    y = x * 2
    return (
        edge(lib, y).output_nr,
        edge(lib, y).node is y.grad_fn,
        edge(lib, x) == edge(lib, x),
        edge(lib, x).node.variable is x,
    )


@PROGRAMS.add
@pytest.mark.spec("000.12")
def edge_of_a_constant(lib):
    edge(lib, lib.ones(1))


@PROGRAMS.add
@pytest.mark.spec("000.13")
def versions(lib):
    x = lib.ones(1)
    alias = x.detach()
    lib.autograd.graph.increment_version(x)
    lib.autograd.graph.increment_version([x, alias])
    return x._version, alias._version


@PROGRAMS.add
@pytest.mark.spec("000.13")
def versions_of_a_number(lib):
    lib.autograd.graph.increment_version(3)


@PROGRAMS.add
@pytest.mark.spec("000.13")
def versions_of_numbers(lib):
    lib.autograd.graph.increment_version([3])


@PROGRAMS.add
@pytest.mark.spec("000.13")
def version_of_something_saved(lib):
    x = leaf(lib, 1)
    y = x * x
    lib.autograd.graph.increment_version(x)
    y.backward(lib.ones(1))


# Hooks


@PROGRAMS.add
@pytest.mark.spec("E.3")
def order_of_hooks(lib):
    x = leaf(lib, 0, 0)
    log = []
    y = x * 1
    y.retain_grad()
    y.grad_fn.register_prehook(lambda grads: log.append(("pre", y.grad is not None)))
    y.register_hook(lambda g: log.append(("tensor", y.grad is not None)))
    y.grad_fn.register_hook(lambda results, grads: log.append(("post", len(grads))))
    accumulator = edge(lib, x).node
    accumulator.register_prehook(lambda grads: log.append("pre of leaf"))
    accumulator.register_hook(lambda results, grads: log.append(("post of leaf", results, x.grad.tolist())))
    x.register_hook(lambda g: log.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda t: log.append("accumulated"))
    y.sum().backward()
    return log


@PROGRAMS.add
@pytest.mark.spec("000.7", "000.8")
def changes_by_hooks(lib):
    x = leaf(lib, 0, 0)
    y = x * 1
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    y.grad_fn.register_prehook(lambda grads: (grads[0] + 1,))
    y.grad_fn.register_hook(lambda results, _: (results[0] * 10, *results[1:]))
    y.grad_fn.register_hook(lambda results, _: (results[0] + 5, *results[1:]))
    y.sum().backward()
    return x.grad


@PROGRAMS.add
@pytest.mark.spec("E.3")
def retained_gradients_add_up(lib):
    x = leaf(lib, 1)
    y = x * 1
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    return y.grad


@PROGRAMS.add
@pytest.mark.spec("E.3")
def hook_removed_while_running(lib):
    x = leaf(lib, 1)
    log = []
    y = x * 1
    y.register_hook(lambda g: second.remove())
    second = y.register_hook(lambda g: log.append("second"))
    y.sum().backward()
    return log


@PROGRAMS.add
@pytest.mark.spec("000.7")
def post_hook_added_while_running(lib):
    x = leaf(lib, 1)
    log = []
    y = x * 1
    y.grad_fn.register_prehook(
        lambda grads: y.grad_fn.register_hook(lambda results, _: log.append("added")) and None
    )
    y.sum().backward()
    return log


@PROGRAMS.add
@pytest.mark.spec("E.3", "D.9")
def captures_and_hooks(lib):
    x = leaf(lib, 1)
    b = x * 2
    b.register_hook(lambda g: g * 100)
    alone = lib.autograd.grad((b * 4).sum(), b, retain_graph=True)
    return alone, lib.autograd.grad((b * 4).sum(), [b, x])


@PROGRAMS.add
@pytest.mark.spec("E.3")
def captured_leaf(lib):
    x = leaf(lib, 1)
    log = []
    x.register_hook(lambda g: g * 3)
    x.register_post_accumulate_grad_hook(lambda t: log.append("accumulated"))
    edge(lib, x).node.register_prehook(lambda grads: log.append("pre"))
    return lib.autograd.grad((x * 2).sum(), x), log


RETURNS = {
    "tensor": lambda lib, grads: lib.ones(2),
    "list": lambda lib, grads: list(grads),
    "one more": lambda lib, grads: (*grads, grads[0]),
    "other size": lambda lib, grads: (lib.ones(3), *grads[1:]),
    "other type": lambda lib, grads: (lib.ones(2, dtype=lib.float16), *grads[1:]),
    "number": lambda lib, grads: (1, *grads[1:]),
    "none inside": lambda lib, grads: (None, *grads[1:]),
    "nothing": lambda lib, grads: None,
}


@pytest.mark.spec("000.7", "000.8")
@pytest.mark.parametrize("kind", ["register_hook", "register_prehook"])
@pytest.mark.parametrize("case", RETURNS)
def test_what_a_node_hook_may_return(agree, case, kind):
    def check(lib):
        x = leaf(lib, 1, 2)
        y = x * 2
        getattr(y.grad_fn, kind)(lambda grads, *_: RETURNS[case](lib, grads))
        y.sum().backward()
        return x.grad

    agree(check)


TENSOR_RETURNS = {
    "tuple": lambda lib: (),
    "number": lambda lib: 1,
    "other size": lambda lib: lib.ones(3),
    "other type": lambda lib: lib.ones(2, dtype=lib.int32),
    "right": lambda lib: lib.ones(2),
}


@pytest.mark.parametrize("case", TENSOR_RETURNS)
@pytest.mark.parametrize("on", ["leaf", "result"])
def test_what_a_tensor_hook_may_return(agree, case, on):
    def check(lib):
        x = leaf(lib, 1, 2)
        y = x * 2
        (x if on == "leaf" else y).register_hook(lambda g: TENSOR_RETURNS[case](lib))
        y.sum().backward()
        return x.grad

    agree(check)


# The engine


@PROGRAMS.add
@pytest.mark.spec("E.2")
def order_of_nodes(lib):
    x, y = leaf(lib, 1), leaf(lib, 2)
    p = x * 2
    q = p.exp()
    r = y * 3
    s = r.sin()
    t = q + s
    order = []
    for name, tensor in {"t": t, "s": s, "r": r, "q": q, "p": p}.items():
        tensor.grad_fn.register_prehook(lambda _, name=name: order.append(name))
    for name, tensor in {"y": y, "x": x}.items():
        tensor.register_hook(lambda _, name=name: order.append(name))
    t.backward(lib.ones(1))
    return order


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
    y.register_hook(lambda g: will_execute(lib, edge(lib, x).node))
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
def test_run_backward_does_what_torchs_does(agree, case):
    def check(lib):
        x = leaf(lib, 2)
        return engine(lib).run_backward(*RUNS[case](lib, x)), x.grad

    agree(check)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_on_torch(agree, name):
    agree(PROGRAMS[name])
