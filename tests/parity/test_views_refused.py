"""Writes into views that torch refuses, or allows: the same here, and what is refused writes nothing."""

import pytest

import oplib

from .programs import shaped_leaf


def in_no_grad(lib, make):
    with lib.no_grad():
        return make()


REFUSED = {
    "leaf": lambda lib, a, y: a.add_(1),
    "item of leaf": lambda lib, a, y: a[0].add_(1),
    "setitem of leaf": lambda lib, a, y: a.__setitem__(0, 1.0),
    "no_grad view of leaf": lambda lib, a, y: in_no_grad(lib, lambda: a[0]).add_(1),
    "no_grad view": lambda lib, a, y: in_no_grad(lib, lambda: y[0]).add_(1),
    "view of no_grad view": lambda lib, a, y: in_no_grad(lib, lambda: y[0])[1:].add_(1),
    "unbound": lambda lib, a, y: y.unbind()[1].add_(1),
    "split": lambda lib, a, y: y.split(2)[0].mul_(2),
    "chunk": lambda lib, a, y: y.chunk(3)[0].mul_(2),
    "part of split": lambda lib, a, y: y.split(2)[0][0].mul_(2),
    "expanded": lambda lib, a, y: y[:1].expand(4, 3).add_(1),
    "detached view in place": lambda lib, a, y: y[0].detach_(),
    "flag of a view": lambda lib, a, y: y[0].requires_grad_(False),
    "view of other strides": lambda lib, a, y: y.t().view(9),
    "unbound of a constant takes history": lambda lib, a, y: lib.zeros(2, 3).unbind()[0].mul_(a[0]),
    "turned leaf": lambda lib, a, y: a.t_(),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.spec("D.20")
def test_what_torch_refuses_is_refused_and_nothing_is_written(assert_agrees, name):
    def program(lib):
        a = shaped_leaf(lib, 3, 3)
        return REFUSED[name](lib, a, a * 1)

    assert_agrees(program)
    a = shaped_leaf(oplib, 3, 3)
    y = a * 1
    with pytest.raises(RuntimeError):
        REFUSED[name](oplib, a, y)
    assert (y._version, a._version) == (0, 0)


def written_then(make, use):
    """A restricted view is made, its base is written, and then the view is used."""

    def program(lib):
        a = shaped_leaf(lib, 3, 3)
        y = a * 1
        view = make(lib, y)
        y.add_(1)
        return use(view)

    return program


LATER = {
    "no_grad": lambda lib, y: in_no_grad(lib, lambda: y[0]),
    "unbind": lambda lib, y: y.unbind()[0],
    "split": lambda lib, y: y.split(1)[2],
}


@pytest.mark.parametrize("name", LATER)
@pytest.mark.parametrize(
    "use",
    [
        lambda v: v.requires_grad,
        lambda v: v.grad_fn,
        lambda v: v.is_leaf,
        lambda v: v * 2,
        lambda v: v.detach(),
    ],
    ids=["requires_grad", "grad_fn", "is_leaf", "use", "detach"],
)
def test_a_view_that_may_not_be_rebased_complains_when_it_is_used_after_a_write(assert_agrees, name, use):
    assert_agrees(written_then(LATER[name], use))


def test_a_write_that_is_not_recorded_bars_such_a_view_too(assert_agrees):
    def program(lib):
        y = shaped_leaf(lib, 3, 3) * 1
        first, *_ = y.unbind()
        with lib.no_grad():
            first.add_(1)
        return first.grad_fn

    assert_agrees(program)


ALLOWED = {
    "unbound constant": lambda lib: lib.zeros(2, 3).unbind()[0].add_(1),
    "constant takes history": lambda lib: lib.zeros(2, 3)[0].add_(shaped_leaf(lib, 3)),
    "detached": lambda lib: shaped_leaf(lib, 3).detach()[0].add_(1),
    "data": lambda lib: shaped_leaf(lib, 3).data[0].add_(1),
    "one of an expanded": lambda lib: (shaped_leaf(lib, 1, 3) * 1).expand(4, 3)[1].mul_(2),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_torch_allows_is_allowed(assert_agrees, name):
    def program(lib):
        view = ALLOWED[name](lib)
        return view, view.requires_grad, view._version

    assert_agrees(program)
