"""Multi-tensor hooks, the log, edges, versions and anomalies: the same programs on torch and oplib."""

import logging
import re

import pytest

from .programs import Programs, leaf

PROGRAMS = Programs()


def graph(lib):
    return lib.autograd.graph


# Hooks over several tensors


def multi(lib, root, inputs):
    r, s = leaf(lib, 2), leaf(lib, 3)
    p, q = r * s, r + s
    seen = []
    graph(lib).register_multi_grad_hook(
        [p, q, r, s], lambda grads: seen.append([None if grad is None else grad.item() for grad in grads])
    )
    first = []
    graph(lib).register_multi_grad_hook([p, q, r, s], lambda grad: first.append(grad), mode="any")
    root(p, q).sum().backward(inputs=inputs(p, s))
    return seen, first


MULTI = {
    "p": (lambda p, q: p, lambda p, s: None),
    "q": (lambda p, q: q, lambda p, s: None),
    "both": (lambda p, q: p + q, lambda p, s: None),
    "p for s": (lambda p, q: p, lambda p, s: [s]),
    "p for p": (lambda p, q: p, lambda p, s: [p]),
}


@pytest.mark.spec("000.18", "000.19", "000.20")
@pytest.mark.parametrize("case", MULTI)
def test_multi_hooks_are_those_of_torch(assert_agrees, case):
    assert_agrees(lambda lib: multi(lib, *MULTI[case]))


@PROGRAMS.add
@pytest.mark.spec("000.18")
def multi_hook_modes(lib):
    graph(lib).register_multi_grad_hook([leaf(lib, 1)], print, mode="some")


@PROGRAMS.add
@pytest.mark.spec("000.18")
def multi_hook_mode_by_position(lib):
    graph(lib).register_multi_grad_hook([leaf(lib, 1)], print, "any")


@PROGRAMS.add
@pytest.mark.spec("000.19")
def multi_hook_of_a_captured_leaf(lib):
    x = leaf(lib, 1)
    graph(lib).register_multi_grad_hook([x], print)
    lib.autograd.grad((x * x).sum(), x)


@PROGRAMS.add
@pytest.mark.spec("000.18")
def multi_hook_by_hand(lib):
    x = leaf(lib, 1)
    graph(lib).register_multi_grad_hook([x], print)
    next(iter(x._backward_hooks.values()))(x)


# The log


class Listener(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(re.sub(r"<(\w+)[^>]*>", r"<\1>", record.getMessage()))


@PROGRAMS.add
@pytest.mark.spec("000.28", "000.29")
def log_of_nodes(lib):
    log = logging.getLogger(f"{lib.__name__}.autograd.graph")
    listener = Listener()
    log.addHandler(listener)
    log.setLevel(logging.DEBUG)
    try:
        x = lib.ones(2, 3).requires_grad_()
        (x * x).sum().backward()
        (x * 2).unbind(0)[0].sum().backward()
        lib.autograd.grad((x * x).sum(), x)
    finally:
        log.setLevel(logging.NOTSET)
        log.removeHandler(listener)
    return listener.lines


# Versions, edges


@PROGRAMS.add
@pytest.mark.spec("000.13")
def versions(lib):
    x = lib.tensor([1.0, 2.0])
    alias = x.detach()
    graph(lib).increment_version(x)
    graph(lib).increment_version([alias, alias])
    return x._version, alias._version


@PROGRAMS.add
@pytest.mark.spec("000.12")
def edges(lib):
    x = leaf(lib, 3)
    y = x * x
    edge = graph(lib).get_gradient_edge(x)
    return (
        edge.output_nr,
        edge.node,
        lib.autograd.grad(y, edge),
        lib.autograd.grad(graph(lib).get_gradient_edge(x * x), edge, lib.ones(1)),
    )


# Anomalies


@PROGRAMS.add
@pytest.mark.spec("004.6")
def nan_in_a_backward(lib):
    x = leaf(lib, 0)
    with lib.autograd.set_detect_anomaly(True):
        (x / x).sum().backward()


@PROGRAMS.add
@pytest.mark.spec("004.6")
def nan_that_may_pass(lib):
    x = leaf(lib, 0)
    with lib.autograd.set_detect_anomaly(True, check_nan=False):
        (x / x).sum().backward()
    return x.grad


@PROGRAMS.add
@pytest.mark.spec("004.6")
def metadata_under_anomaly(lib):
    x = leaf(lib, 2)
    with lib.autograd.set_detect_anomaly(True):
        y = (x**3).sum()
        (first,) = lib.autograd.grad(y, x, create_graph=True)
    return sorted(y.grad_fn.metadata), sorted(first.grad_fn.metadata), first.grad_fn.metadata["parent_"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_as_in_torch(assert_agrees, name):
    assert_agrees(PROGRAMS[name])
