"""The graph module: the same programs on torch and oplib."""

import logging
import re

import pytest

from .programs import Programs, leaf

PROGRAMS = Programs()


def graph(lib):
    return lib.autograd.graph


# Saved tensors


def count_packs(lib, call):
    packed, unpacked = [], []
    a = leaf(lib, 2)
    with graph(lib).saved_tensors_hooks(
        lambda t: (packed.append((t is a, t.requires_grad, t.is_leaf)), t.detach())[1],
        lambda t: (unpacked.append(1), t)[1],
    ):
        y = call(lib, a)
    if y.requires_grad:
        y.sum().backward()
    return packed, len(unpacked), a.grad


CALLS = {
    "a*a": lambda lib, a: a * a,
    "a*constant": lambda lib, a: a * lib.tensor([5.0]),
    "a*3": lambda lib, a: a * 3,
    "3*a": lambda lib, a: 3 * a,
    "a/3": lambda lib, a: a / 3,
    "a**2": lambda lib, a: a**2,
    "a**3": lambda lib, a: a**3,
    "exp": lambda lib, a: a.exp(),
    "log": lambda lib, a: a.log(),
    "sin": lambda lib, a: a.sin(),
    "sqrt": lambda lib, a: a.sqrt(),
    "tanh": lambda lib, a: a.tanh(),
    "sigmoid": lambda lib, a: a.sigmoid(),
    "relu": lambda lib, a: a.relu(),
    "sum": lambda lib, a: a.sum(),
    "a+a": lambda lib, a: a + a,
    "a-1": lambda lib, a: a - 1,
    "no gradient": lambda lib, a: a.detach() * a.detach(),
}


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("call", CALLS)
def test_ops_pack_as_torch_does(agree, call):
    agree(lambda lib: count_packs(lib, CALLS[call]))


def order_of_packing(lib, inside):
    a = leaf(lib, 2)
    with graph(lib).saved_tensors_hooks(lambda t: 2 * t, lambda t: t):
        y = (a**3).sum()
        if inside:
            (first,) = lib.autograd.grad(y, a, create_graph=True)
        if inside == 2:
            first.sum().backward()
    if not inside:
        (first,) = lib.autograd.grad(y, a, create_graph=True)
    if inside < 2:
        first.sum().backward()
    return a.grad


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("inside", [0, 1, 2])
def test_orders_pack_as_in_torch(agree, inside):
    agree(lambda lib: order_of_packing(lib, inside))


def hook(t):
    return t


@PROGRAMS.add
@pytest.mark.spec("000.14")
def raw_saved(lib):
    a = leaf(lib, 2)
    y = a * a
    seen = []
    y.grad_fn._raw_saved_self.register_hooks(
        lambda t: (seen.append((t is a, t.requires_grad, t.grad_fn)), 10 * t)[1], hook
    )
    saved = y.grad_fn._saved_self
    facts = saved is a, saved.requires_grad, saved.is_leaf, y.grad_fn._saved_other is a
    y.backward()
    return seen, facts, a.grad


@PROGRAMS.add
@pytest.mark.spec("000.14")
def saved_result(lib):
    a = leaf(lib, 2)
    y = a.exp()
    saved = y.grad_fn._saved_result
    return saved is y, saved, saved.grad_fn is y.grad_fn


@PROGRAMS.add
@pytest.mark.spec("000.14")
def raw_saved_twice(lib):
    y = leaf(lib, 2) * leaf(lib, 2)
    y.grad_fn._raw_saved_self.register_hooks(hook, hook)
    y.grad_fn._raw_saved_self.register_hooks(hook, hook)


@PROGRAMS.add
@pytest.mark.spec("000.14")
def raw_saved_after_default_hooks(lib):
    with graph(lib).saved_tensors_hooks(hook, hook):
        y = leaf(lib, 2) * leaf(lib, 2)
    y.grad_fn._raw_saved_self.register_hooks(hook, hook)


@PROGRAMS.add
@pytest.mark.spec("000.14")
def raw_saved_freed(lib):
    y = leaf(lib, 2) * leaf(lib, 2)
    y.backward()
    y.grad_fn._raw_saved_self.register_hooks(hook, hook)


@PROGRAMS.add
@pytest.mark.spec("000.14")
def saved_freed(lib):
    y = leaf(lib, 2) * leaf(lib, 2)
    y.backward()
    return y.grad_fn._saved_self


@PROGRAMS.add
@pytest.mark.spec("000.14")
def raw_saved_not_callable(lib):
    y = leaf(lib, 2) * leaf(lib, 2)
    y.grad_fn._raw_saved_self.register_hooks(1, 2)


@PROGRAMS.add
@pytest.mark.spec("000.14")
def second_pass_with_hooks(lib):
    with graph(lib).saved_tensors_hooks(hook, hook):
        y = leaf(lib, 2) * leaf(lib, 2)
    y.backward()
    y.backward()


def error_program(lib, pack, unpack):
    a = leaf(lib, 2)
    with graph(lib).saved_tensors_hooks(pack, unpack):
        y = (a * 1).exp()
    y.backward()


ERRORS = {
    "pack writes": (lambda t: t.detach().mul_(2), hook),
    "unpack gives a number": (hook, lambda t: 3),
    "unpack gives None": (hook, lambda t: None),
    "pack fails": (lambda t: {}[t], hook),
    "unpack fails": (hook, lambda t: {}[t]),
    "no function": (3, hook),
    "wrong arity": (lambda: 3, hook),
}


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("case", ERRORS)
def test_bad_hooks_raise_as_in_torch(agree, case):
    agree(lambda lib: error_program(lib, *ERRORS[case]))


@PROGRAMS.add
@pytest.mark.spec("000.14")
def mutation_after_packing(lib):
    a = leaf(lib, 2)
    b = a * 1
    with graph(lib).saved_tensors_hooks(hook, hook):
        y = b * b
    with lib.no_grad():
        b.mul_(5)
    y.backward()
    return a.grad


@PROGRAMS.add
@pytest.mark.spec("000.16")
def disabled(lib):
    with graph(lib).disable_saved_tensors_hooks("no"), graph(lib).saved_tensors_hooks(hook, hook):
        pass


@PROGRAMS.add
@pytest.mark.spec("000.16")
def disabled_while_active(lib):
    found = []
    try:
        with graph(lib).saved_tensors_hooks(hook, hook), graph(lib).disable_saved_tensors_hooks("no"):
            pass
    except RuntimeError as error:
        found.append(str(error))
    with graph(lib).saved_tensors_hooks(hook, hook):
        found.append("enabled")
    return found


@PROGRAMS.add
@pytest.mark.spec("000.16")
def disabled_with_a_number(lib):
    with graph(lib).disable_saved_tensors_hooks(3):
        pass


@PROGRAMS.add
@pytest.mark.spec("001.13")
def pop_of_nothing(lib):
    owner = lib._C._autograd if hasattr(lib, "_C") else lib.autograd
    owner._pop_saved_tensors_default_hooks()


@PROGRAMS.add
@pytest.mark.spec("000.15")
def saved_on_cpu(lib):
    a = leaf(lib, 1, 2)
    with graph(lib).save_on_cpu(device_type="nonexistent"):
        y = a * a
        with graph(lib).save_on_cpu(pin_memory=True):
            z = y.exp()
    z.sum().backward()
    return a.grad


@PROGRAMS.add
@pytest.mark.spec("000.14")
def function_that_reads_twice(lib):
    seen = []

    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, y, None)
            return y

        @staticmethod
        def backward(ctx, grad):
            assert ctx.saved_tensors[2] is None
            return grad * 2 * ctx.saved_tensors[0]

    a = leaf(lib, 3)
    b = a * 1
    with graph(lib).saved_tensors_hooks(
        lambda t: (seen.append(("pack", t is b, t.grad_fn)), t.detach())[1],
        lambda t: (seen.append("unpack"), t)[1],
    ):
        y = Square.apply(b)
    y.backward()
    return seen, a.grad


# Writing into what was saved


def sizes(ctx):
    return len(ctx.original), len(ctx.cloned), len(ctx.tid_to_weakhandle), len(ctx.sid_to_tid)


@PROGRAMS.add
@pytest.mark.spec("000.26")
def mutation_allowed(lib):
    x = leaf(lib, 2, 2)
    with graph(lib).allow_mutation_on_saved_tensors() as ctx:
        y = x.clone()
        loss = (y**3).sum()
        found = [sizes(ctx)]
        y.add_(1)
        found.append(sizes(ctx))
        loss.backward()
        del loss
        found.append(sizes(ctx))
    found.append(sizes(ctx))
    return found, y, x.grad


@PROGRAMS.add
@pytest.mark.spec("000.27")
def mutation_not_allowed(lib):
    x = leaf(lib, 2)
    y = x.clone()
    loss = (y**3).sum()
    y.add_(1)
    loss.backward()


@PROGRAMS.add
@pytest.mark.spec("000.27")
def mutation_of_second_order(lib):
    b = leaf(lib, 2)
    with graph(lib).allow_mutation_on_saved_tensors():
        c = b.clone()
        y = c**3
        c.mul_(5)
        (first,) = lib.autograd.grad(y, b, create_graph=True)
        (second,) = lib.autograd.grad(first, b)
    return first, second


@PROGRAMS.add
@pytest.mark.spec("000.24")
def mutation_outside(lib):
    a = leaf(lib, 2)
    with graph(lib).allow_mutation_on_saved_tensors():
        y = a * a
    y.backward()


@PROGRAMS.add
@pytest.mark.spec("000.27")
def mutation_nested(lib):
    with graph(lib).allow_mutation_on_saved_tensors(), graph(lib).allow_mutation_on_saved_tensors():
        pass


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
def test_multi_hooks_are_those_of_torch(agree, case):
    agree(lambda lib: multi(lib, *MULTI[case]))


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
        self.lines.append(re.sub("0x[0-9a-f]+", "", record.getMessage()))


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
@pytest.mark.spec("000.13")
def version_of_a_number(lib):
    graph(lib).increment_version(3)


@PROGRAMS.add
@pytest.mark.spec("000.13")
def version_of_numbers(lib):
    graph(lib).increment_version([3])


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


@PROGRAMS.add
@pytest.mark.spec("000.12")
def edge_of_a_stranger(lib):
    graph(lib).get_gradient_edge(lib.tensor([1.0]))


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
def test_it_is_as_in_torch(agree, name):
    agree(PROGRAMS[name])
