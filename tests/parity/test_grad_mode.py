"""Grad modes: the same programs on torch and oplib."""

import copy
import pickle

import pytest

from .programs import Programs, leaf

PROGRAMS = Programs()

pytestmark = pytest.mark.spec("001.2")


def inside(lib, make):
    with lib.inference_mode():
        return make()


def made(lib):
    return inside(lib, lambda: lib.ones(2))


# Decorators


@PROGRAMS.add
def decorators(lib):
    def ask():
        return lib.is_grad_enabled(), lib.is_inference_mode_enabled()

    modes = [lib.no_grad(), lib.enable_grad(), lib.inference_mode(), lib.inference_mode(False)]
    return [mode(ask)() for mode in modes], [mode(ask)() for mode in (lib.no_grad, lib.inference_mode)], ask()


@PROGRAMS.add
def generators(lib):
    seen = []

    def ask():
        try:
            got = yield lib.is_grad_enabled()
            yield got, lib.is_grad_enabled()
        except ValueError:
            yield "caught", lib.is_grad_enabled()
        finally:
            seen.append(lib.is_grad_enabled())

    steps = lib.no_grad()(ask)()
    seen += [
        next(steps),
        lib.is_grad_enabled(),
        steps.send(3),
        steps.throw(ValueError()),
        lib.is_grad_enabled(),
    ]
    steps.close()
    steps = lib.inference_mode()(ask)()
    next(steps)
    del steps
    return seen, lib.is_grad_enabled()


@PROGRAMS.add
def a_decorated_class(lib):
    class Asking:
        def __init__(self):
            self.seen = lib.is_grad_enabled()

    return lib.no_grad()(Asking)().seen


@PROGRAMS.add
def set_grad_enabled_in_its_three_ways(lib):
    def ask():
        return lib.is_grad_enabled()

    with lib.set_grad_enabled(False) as given:
        seen = [given, ask()]
    decorated = lib.set_grad_enabled(False)(ask)
    seen += [ask(), decorated(), ask()]
    lib.set_grad_enabled(False)
    seen.append(ask())
    lib.set_grad_enabled(True)
    return seen


@PROGRAMS.add
def set_grad_enabled_of_a_string(lib):
    lib.set_grad_enabled("x")


@PROGRAMS.add
def nesting(lib):
    seen = []

    def ask():
        seen.append((lib.is_grad_enabled(), lib.is_inference_mode_enabled()))

    with lib.inference_mode():
        ask()
        with lib.enable_grad():
            ask()
            with lib.no_grad():
                ask()
        with lib.inference_mode(False):
            ask()
        ask()
    ask()
    return seen


@PROGRAMS.add
def a_leaf_that_asks_for_no_gradient_any_more_gets_none(lib):
    x, w = leaf(lib, 1, 2), leaf(lib, 3, 4)
    y = x * w
    x.requires_grad_(False)
    y.sum().backward()
    gone = leaf(lib, 1, 2)
    z = gone * w
    gone.detach_()
    z.sum().backward()
    return x.grad, gone.grad, w.grad


@PROGRAMS.add
def views_of_a_leaf_that_is_a_view_itself(lib):
    """Views that are not recorded have the flag of the memory's first Tensor."""
    found = []
    for mode in (lib.no_grad, lib.inference_mode):
        for make in (lambda one: one[:1], lambda one: one.unbind()[0], lambda one: one[1:].view(-1)):
            first = lib.zeros(2, 3)
            row = first[0].requires_grad_()
            part = row[:2]
            with mode():
                views = [make(row), make(part)]
            found.append([(one.requires_grad, one.is_leaf, one.grad_fn is None) for one in views])
            views[0].mul_(2)
            first.requires_grad_()
            found.append([one.requires_grad for one in views])
    return found


@PROGRAMS.add
def detached_in_inference_mode(lib):
    """Nothing is recorded there, so no history is removed either."""
    x = leaf(lib, 1, 2)
    y, view = x * 2, (x * 3)[:1]
    inside(lib, y.detach_)
    inside(lib, view.detach_)
    (y.sum() + view.sum()).backward()
    return y.requires_grad, y.is_leaf, y._version, view.requires_grad, x.grad


@PROGRAMS.add
def a_leaf_that_was_moved_into_the_graph(lib):
    x, w = leaf(lib, 1, 2), leaf(lib, 3, 4)
    y = x + w
    x.requires_grad_(False)
    x.mul_(w)
    y.sum().backward()


# Inference mode: each of these on a tensor made inside

OUTSIDE = {
    "version": lambda lib, a, x: a._version,
    "requires_grad_": lambda lib, a, x: a.requires_grad_(),
    "requires_grad off": lambda lib, a, x: a.requires_grad_(False),
    "in place": lambda lib, a, x: a.add_(1),
    "setitem": lambda lib, a, x: a.__setitem__(0, 1.0),
    "in place with it": lambda lib, a, x: lib.ones(2).add_(a),
    "copy from it": lambda lib, a, x: lib.zeros(2).copy_(a),
    "saved": lambda lib, a, x: x * a,
    "not saved": lambda lib, a, x: (x + a).requires_grad,
    "saved as index": lambda lib, a, x: x[inside(lib, lambda: lib.tensor([0]))],
    "result": lambda lib, a, x: (a * 2).is_inference(),
    "detach": lambda lib, a, x: a.detach().is_inference(),
    "clone": lambda lib, a, x: a.clone().is_inference(),
    "to": lambda lib, a, x: a.to(lib.float32) is a,
    "leaf": lambda lib, a, x: (a.is_leaf, a.grad_fn, a.grad, a.requires_grad),
    "deepcopy": lambda lib, a, x: copy.deepcopy(a).is_inference(),
    "pickle": lambda lib, a, x: pickle.loads(pickle.dumps(a)).is_inference(),
    "retain_grad": lambda lib, a, x: a.retain_grad(),
    "register_hook": lambda lib, a, x: a.register_hook(print),
    "as grad": lambda lib, a, x: setattr(x, "grad", a),
    "accumulated into": lambda lib, a, x: (setattr(x, "grad", a), (x * 2).sum().backward()),
    "as gradient": lambda lib, a, x: lib.autograd.grad(x * 2, x, a),
    "increment_version": lambda lib, a, x: lib.autograd.graph.increment_version(a),
    "no_grad": lambda lib, a, x: lib.no_grad()(lambda: x * a)().requires_grad,
    "view": lambda lib, a, x: [a.view(2, 1).is_inference(), a[0].is_inference(), a[1:].is_inference()],
    "view version": lambda lib, a, x: a.view(2, 1)._version,
    "view in place": lambda lib, a, x: a[1:].add_(1),
    "view saved": lambda lib, a, x: x[1:] * a[1:],
    "view requires_grad_": lambda lib, a, x: a[1:].requires_grad_(),
}

INSIDE = {
    "result": lambda lib, a, x: ((x * 2).requires_grad, (x * 2).is_inference()),
    "in place": lambda lib, a, x: a.add_(1),
    "requires_grad_": lambda lib, a, x: a.requires_grad_().requires_grad,
    "ordinary in place": lambda lib, a, x: lib.inference_mode(False)(lib.ones)(2).add_(1)._version,
    "leaf in place": lambda lib, a, x: (x.add_(1).is_leaf, x._version),
    "detach": lambda lib, a, x: x.detach().is_inference(),
    "enable_grad": lambda lib, a, x: lib.enable_grad()(lambda: x * 2)().requires_grad,
    "mode off": lambda lib, a, x: lib.inference_mode(False)(lambda: x * 2)().requires_grad,
    "leaf": lambda lib, a, x: lib.ones(2, requires_grad=True).requires_grad,
    "result of leaf": lambda lib, a, x: (lib.ones(2, requires_grad=True) * 2).requires_grad,
    "backward": lambda lib, a, x: (lib.inference_mode(False)(lambda: (x * x).sum())().backward(), x.grad),
    "view": lambda lib, a, x: (x.view(2, 1).is_inference(), x.view(2, 1)._is_view(), a[1:].is_inference()),
    "view of ordinary in place": lambda lib, a, x: (
        lib.inference_mode(False)(lib.ones)(2)[1:].add_(1)._version
    ),
    "view of its own in place": lambda lib, a, x: (a[1:].add_(1), a),
    "setitem": lambda lib, a, x: (a.__setitem__(0, 5.0), a),
    "factory": lambda lib, a, x: [lib.tensor([1.0]).is_inference(), lib.zeros_like(x).is_inference()],
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_an_inference_tensor_outside_does_what_it_does_on_torch(assert_agrees, case):
    assert_agrees(lambda lib: OUTSIDE[case](lib, made(lib), leaf(lib, 1, 2)))


@pytest.mark.parametrize("case", INSIDE)
def test_inference_mode_does_what_it_does_on_torch(assert_agrees, case):
    def check(lib):
        a, x = made(lib), leaf(lib, 1, 2)
        return inside(lib, lambda: INSIDE[case](lib, a, x))

    assert_agrees(check)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_what_it_does_on_torch(assert_agrees, name):
    assert_agrees(PROGRAMS[name])
