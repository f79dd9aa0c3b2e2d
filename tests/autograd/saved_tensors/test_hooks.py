"""Hooks through which saved tensors go."""

import pytest

import oplib
from oplib.autograd import _pop_saved_tensors_default_hooks, _push_saved_tensors_default_hooks
from oplib.autograd.graph import saved_tensors_hooks
from oplib.errors import AutogradError, GradientTypeError, SavedTensorError
from oplib.modes import modes
from tests.autograd.counting_hooks import CountingHooks
from tests.threads import run_in_thread

CALLS = {
    "a*a": (lambda a: a * a, 2),
    "a*constant": (lambda a: a * oplib.tensor([5.0]), 1),
    "a*3": (lambda a: a * 3, 0),
    "a**3": (lambda a: a**3, 1),
    "exp": (lambda a: a.exp(), 1),
    "sum": (lambda a: a.sum(), 0),
    "a[0]": (lambda a: a[0], 0),
    "a+a": (lambda a: a + a, 0),
    "no input requires grad": (lambda a: a.detach() * a.detach(), 0),
}


@pytest.mark.spec("000.14")
@pytest.mark.parametrize("call", CALLS)
def test_an_op_packs_what_it_saves(a, hooks, call):
    function, count = CALLS[call]
    with hooks():
        y = function(a)
    assert len(hooks.packed) == count
    if y.requires_grad:
        y.backward()
        assert hooks.unpacked == count


@pytest.mark.spec("000.14")
def test_nothing_is_packed_under_no_grad(a, hooks):
    with hooks(), oplib.no_grad():
        a * a
    assert not hooks.packed


@pytest.mark.spec("000.14")
def test_pack_sees_the_very_input_with_its_history_and_grad_mode_is_off(a):
    seen = []
    b = a * 1
    with saved_tensors_hooks(lambda t: seen.append((t, t.grad_fn, oplib.is_grad_enabled())), lambda t: t):
        b * b
    assert [one[0] is b for one in seen] == [True, True]
    assert seen[0][1] is b.grad_fn
    assert not seen[0][2]


@pytest.mark.spec("000.14")
def test_a_result_is_packed_with_its_node(a, hooks):
    with hooks():
        y = a.exp()
    assert hooks.packed[0].grad_fn is y.grad_fn
    assert y.grad_fn._saved_result.grad_fn is y.grad_fn
    assert y.grad_fn._saved_result is not y


@pytest.mark.spec("000.14")
def test_the_result_of_unpack_is_what_the_backward_reads(a):
    with saved_tensors_hooks(lambda t: None, lambda kept: oplib.tensor([7.0])):
        y = a * a
    y.backward()
    assert a.grad.tolist() == [14.0]


@pytest.mark.spec("000.14")
def test_unpack_runs_at_every_read(a, hooks):
    with hooks():
        y = a * a
    y.grad_fn._saved_self  # noqa: B018  reading is what is tested
    assert hooks.unpacked == 1
    y.backward(retain_graph=True)
    y.backward()
    assert hooks.unpacked == 5


@pytest.mark.spec("000.14")
def test_unpack_runs_in_the_grad_mode_of_the_reader(a):
    modes_seen = []
    with saved_tensors_hooks(lambda t: t, lambda t: (modes_seen.append(oplib.is_grad_enabled()), t)[1]):
        y = a.exp()
    y.grad_fn._saved_result  # noqa: B018
    y.backward(retain_graph=True)
    oplib.autograd.grad(y, a, create_graph=True)
    assert modes_seen == [True, False, True]


@pytest.mark.spec("000.14")
def test_the_link_is_restored_so_that_higher_orders_work():
    a = oplib.tensor(3.0, requires_grad=True)
    with saved_tensors_hooks(lambda t: t.numpy(force=True), lambda kept: oplib.tensor(kept)):
        y = a**3
    (first,) = oplib.autograd.grad(y, a, create_graph=True)
    (second,) = oplib.autograd.grad(first, a)
    assert (first.item(), second.item()) == (27.0, 18.0)


@pytest.mark.spec("000.14")
@pytest.mark.parametrize(("inside", "factor"), [(0, 2), (1, 8), (2, 8)])
def test_a_recorded_pass_packs_too(a, inside, factor):
    with saved_tensors_hooks(lambda t: 2 * t, lambda kept: kept):
        y = (a**3).sum()
        if inside:
            (first,) = oplib.autograd.grad(y, a, create_graph=True)
        if inside == 2:
            first.sum().backward()
    if not inside:
        (first,) = oplib.autograd.grad(y, a, create_graph=True)
    if inside < 2:
        first.sum().backward()
    assert a.grad.tolist() == [6 * factor * 2.0]


@pytest.mark.spec("000.14")
def test_the_version_is_not_checked_of_what_hooks_have_packed(a):
    b = a * 1
    with saved_tensors_hooks(lambda t: t, lambda t: t):
        y = b * b
    with oplib.no_grad():
        b.mul_(5)
    y.backward()
    assert a.grad.tolist() == [20.0]


@pytest.mark.spec("000.14")
def test_a_second_pass_is_refused_all_the_same(a, hooks):
    with hooks():
        y = a * a
    y.backward()
    with pytest.raises(SavedTensorError, match="a second time"):
        y.backward()


@pytest.mark.spec("000.14")
def test_only_the_innermost_pair_applies(a, hooks):
    inner = CountingHooks()
    with hooks():
        with inner():
            a * a
        a.exp()
    assert (len(inner.packed), len(hooks.packed)) == (2, 1)


@pytest.mark.spec("000.14")
def test_a_composed_pair_packs_through_those_around_it(a):
    order = []

    def pair(name):
        return (
            lambda t: (order.append(f"pack {name}"), (name, t.detach()))[1],
            lambda kept: (order.append(f"unpack {kept[0]}"), kept[1])[1],
        )

    with saved_tensors_hooks(*pair("outer")), saved_tensors_hooks(*pair("inner"), compose=True):
        y = a.exp()
    y.backward()
    assert order == ["pack inner", "pack outer", "unpack outer", "unpack inner"]
    assert a.grad.tolist() == y.tolist()


@pytest.mark.spec("000.14")
def test_the_stack_is_the_threads_own(a, hooks):
    with hooks():
        product = run_in_thread(lambda: a * a)
    assert product.requires_grad
    assert not hooks.packed


@pytest.mark.spec("000.14")
def test_leaving_by_an_error_takes_the_pair_away(hooks):
    with pytest.raises(ZeroDivisionError), hooks():
        1 / 0  # noqa: B018
    assert modes.state.watchers == 0


@pytest.mark.spec("000.14")
def test_errors_of_hooks_pass(a):
    with saved_tensors_hooks(lambda t: 1 / 0, lambda t: t), pytest.raises(ZeroDivisionError):
        a * a
    with saved_tensors_hooks(lambda t: t, lambda t: 1 / 0):
        y = a * a
    with pytest.raises(ZeroDivisionError):
        y.backward()


@pytest.mark.spec("000.14")
def test_hooks_that_cannot_be_called_are_refused_at_the_door():
    with (
        pytest.raises(GradientTypeError, match=r"the pack hook cannot be called. Got int"),
        saved_tensors_hooks(3, lambda t: t),
    ):
        pass
    assert modes.state.watchers == 0


@pytest.mark.spec("000.14", "001.13")
def test_pushing_and_popping_by_hand(a, hooks):
    _push_saved_tensors_default_hooks(hooks.pack, hooks.unpack)
    a * a
    _pop_saved_tensors_default_hooks()
    assert len(hooks.packed) == 2
    with pytest.raises(AutogradError, match="no hooks are in force"):
        _pop_saved_tensors_default_hooks()


@pytest.mark.spec("000.14")
def test_what_was_packed_goes_when_the_graph_frees_it(a):
    alive = []

    class Kept:
        def __init__(self, tensor):
            self.array = tensor.array
            alive.append(self)

        def __del__(self):
            alive.append("gone")

    with saved_tensors_hooks(Kept, lambda kept: oplib.Tensor.from_array(kept.array)):
        y = a.exp()
    alive.clear()
    y.backward()
    assert alive == ["gone"]
