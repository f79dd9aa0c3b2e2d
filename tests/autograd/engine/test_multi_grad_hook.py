"""One hook for several tensors."""

import copy
import pickle
import weakref
from collections import OrderedDict

import pytest

import oplib
from oplib.autograd.graph import _MultiHandle, register_multi_grad_hook
from oplib.errors import AutogradError, GradientValueError, MisplacedCallError
from oplib.hooks import RemovableHandle
from tests.autograd.functions import Split
from tests.threads import run_in_threads


@pytest.fixture
def four():
    """Two leaves, their product and their sum."""
    r = oplib.tensor(2.0, requires_grad=True)
    s = oplib.tensor(3.0, requires_grad=True)
    return r * s, r + s, r, s


def which(seen):
    return [[int(grad is not None) for grad in grads] for grads in seen]


@pytest.mark.spec("000.19")
@pytest.mark.parametrize(
    ("root", "inputs", "expected"),
    [
        (lambda p, q, r, s: p, lambda p, q, r, s: None, [1, 0, 1, 1]),
        (lambda p, q, r, s: q, lambda p, q, r, s: None, [0, 1, 1, 1]),
        (lambda p, q, r, s: p + q, lambda p, q, r, s: None, [1, 1, 1, 1]),
        (lambda p, q, r, s: p * 1, lambda p, q, r, s: [s], [1, 0, 0, 1]),
        (lambda p, q, r, s: p * 1, lambda p, q, r, s: [p], [1, 0, 0, 0]),
    ],
)
def test_the_hook_waits_for_what_the_run_computes_and_no_more(four, root, inputs, expected):
    seen = []
    register_multi_grad_hook(four, seen.append)
    root(*four).backward(inputs=inputs(*four))
    assert which(seen) == [expected]
    assert type(seen[0]) is list


@pytest.mark.spec("000.19", "D.3")
def test_the_root_alone_counts_and_a_root_with_a_leaf_is_waited_for():
    x = oplib.tensor(2.0, requires_grad=True)
    y = x * x
    seen = []
    register_multi_grad_hook([y], seen.append)
    register_multi_grad_hook([y, x], seen.append)
    y.backward()
    assert [[grad.item() for grad in grads] for grads in seen] == [[1.0], [1.0, 4.0]]


@pytest.mark.spec("000.19", "D.3")
def test_a_nested_run_does_not_lose_the_call_of_the_outer_one():
    a, b = oplib.tensor(2.0, requires_grad=True), oplib.tensor(3.0, requires_grad=True)
    seen = []

    def nest(grad):
        if not seen:
            with oplib.enable_grad():
                (a * 5).backward()

    b.register_hook(nest)
    register_multi_grad_hook([a, b], lambda grads: seen.append([grad and grad.item() for grad in grads]))
    (a * b).backward()
    assert seen == [[5.0, None], [3.0, 2.0]]


@pytest.mark.spec("000.19")
def test_a_tensor_that_is_listed_twice_fills_both_places():
    x = oplib.tensor(2.0, requires_grad=True)
    seen = []
    register_multi_grad_hook([x, x], seen.append)
    (x * x).backward()
    assert which(seen) == [[1, 1]]


@pytest.mark.spec("000.19")
def test_a_sibling_output_that_is_not_used_arrives_as_none():
    p, q = Split.apply(oplib.tensor(1.0, requires_grad=True))
    seen = []
    register_multi_grad_hook([p, q], seen.append)
    (p * 1).backward()
    assert which(seen) == [[1, 0]]


@pytest.mark.spec("000.18", "000.19")
def test_it_works_again_at_every_run_and_after_an_error(four):
    seen = []

    def fail_first(grads):
        seen.append(grads)
        if len(seen) == 1:
            raise ValueError("once")

    p, q, *_ = four
    register_multi_grad_hook(four, fail_first)
    with pytest.raises(ValueError, match="once"):
        (p + q).backward(retain_graph=True)
    (p + q).backward()
    assert which(seen) == [[1, 1, 1, 1]] * 2


@pytest.mark.spec("000.18")
def test_what_the_hook_returns_is_ignored():
    x = oplib.tensor(2.0, requires_grad=True)
    register_multi_grad_hook([x], lambda grads: [grads[0] * 100])
    register_multi_grad_hook([x], lambda grad: grad * 100, mode="any")
    (x * x).backward()
    assert x.grad.item() == 4.0


@pytest.mark.spec("000.19")
def test_a_leaf_whose_gradient_grad_hands_back_raises():
    x = oplib.tensor(2.0, requires_grad=True)
    register_multi_grad_hook([x], print)
    with pytest.raises(AutogradError, match=r"autograd\.grad\(\)"):
        oplib.autograd.grad(x * x, x)


@pytest.mark.spec("000.19", "D.2")
def test_all_tensors_must_require_grad_and_nothing_is_registered_else():
    x = oplib.tensor(2.0, requires_grad=True)
    with pytest.raises(AutogradError, match=r"position 1 doesn't require grad. Got f32\[\]"):
        register_multi_grad_hook([x, oplib.tensor(1.0)], print)
    assert not x._backward_hooks


@pytest.mark.spec("000.18")
def test_a_mode_is_all_or_any_and_given_by_name():
    x = oplib.tensor(2.0, requires_grad=True)
    with pytest.raises(GradientValueError, match=r"Expects mode to be one of \('all', 'any'\). Got 'some'"):
        register_multi_grad_hook([x], print, mode="some")
    with pytest.raises(TypeError, match="positional"):
        register_multi_grad_hook([x], print, "any")
    assert not x._backward_hooks


@pytest.mark.spec("000.20")
def test_any_calls_once_for_each_run_with_the_first_gradient(four):
    seen = []
    p, q, r, s = four
    register_multi_grad_hook((*four, oplib.tensor(1.0)), seen.append, mode="any")
    (p * 7).backward(retain_graph=True)
    assert [grad.item() for grad in seen] == [7.0]
    oplib.autograd.grad(q * 5, [r, s])
    assert [grad.item() for grad in seen] == [7.0, 5.0]


@pytest.mark.spec("000.20")
def test_any_keeps_name_and_doc():
    def hook(grad):
        """Looks."""

    x = oplib.tensor(2.0, requires_grad=True)
    register_multi_grad_hook([x], hook, mode="any")
    (registered,) = x._backward_hooks.values()
    assert (registered.__name__, registered.__doc__) == ("hook", "Looks.")


@pytest.mark.spec("000.18")
def test_a_hook_that_is_called_by_hand_says_where_it_belongs():
    x = oplib.tensor(2.0, requires_grad=True)
    register_multi_grad_hook([x], print)
    register_multi_grad_hook([x], print, mode="any")
    for hook in x._backward_hooks.values():
        with pytest.raises(MisplacedCallError, match="inside a backward call"):
            hook(x)


@pytest.mark.spec("000.18", "000.20")
@pytest.mark.parametrize("mode", ["all", "any"])
def test_threads_lose_no_call(mode):
    leaves = [oplib.tensor(float(number), requires_grad=True) for number in range(3)]
    seen = []
    register_multi_grad_hook(leaves, seen.append, mode=mode)
    roots = [(leaves[0] * leaves[1] * leaves[2]).sin() for _ in range(8)]
    run_in_threads(lambda number: roots[number].backward(), len(roots))
    assert len(seen) == 8


@pytest.mark.spec("000.19", "000.20", "E.9")
@pytest.mark.usefixtures("collector_off")
def test_nothing_is_left_of_a_run():
    x = oplib.tensor(2.0, requires_grad=True)
    other = oplib.tensor(2.0, requires_grad=True)
    kept = []
    register_multi_grad_hook([x, other], lambda grads: None)
    register_multi_grad_hook([x], lambda grad: kept.append(weakref.ref(grad)), mode="any")
    (x * 3).backward(inputs=[x])
    x.grad = None
    assert kept[0]() is None


# Handles


@pytest.mark.spec("000.17")
def test_removing_takes_all_hooks_away_and_again_is_harmless(four):
    seen = []
    with register_multi_grad_hook(four, seen.append) as nothing:
        assert nothing is not None
    handle = register_multi_grad_hook(four, seen.append)
    handle.remove()
    handle.remove()
    four[0].backward()
    assert seen == []


@pytest.mark.spec("000.17")
def test_no_tensors_give_an_empty_handle():
    handle = register_multi_grad_hook([], print)
    assert handle.handles == ()
    assert isinstance(handle, RemovableHandle)
    assert not hasattr(handle, "id")


@pytest.mark.spec("000.17")
@pytest.mark.parametrize("clone", [copy.copy, lambda handle: pickle.loads(pickle.dumps(handle))])
def test_it_is_copied_with_its_handles(clone):
    hooks = OrderedDict()
    inner = RemovableHandle(hooks)
    hooks[inner.id] = print
    handle = _MultiHandle((inner,))
    assert handle.__getstate__() == (inner,)
    copied = clone(handle)
    assert [one.id for one in copied.handles] == [inner.id]
    assert clone(_MultiHandle(())).handles == ()


def test_a_hook_registered_inside_vmap_is_refused_in_a_pass_outside():
    def f(x):
        y = x * x
        register_multi_grad_hook([y, y * 2], print)
        return y * x

    x = oplib.ones(2, 3, requires_grad=True)
    with pytest.raises(AutogradError, match="registered inside vmap, and this pass runs outside"):
        oplib.vmap(f)(x).sum().backward()
