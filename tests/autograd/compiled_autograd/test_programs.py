"""Compiled backward passes give what eager ones give, and find their program again."""

import gc
import logging
import weakref

import jax
import numpy as np
import pytest

import oplib
from oplib.autograd import compiled_autograd, grad
from oplib.autograd.compiled_autograd import enable
from oplib.errors import SavedTensorError

pytestmark = pytest.mark.spec("002.29")


def loss_of(w, y):
    return ((w * y).sin() @ w).sum()


def test_a_compiled_backward_gives_the_gradients_of_the_eager_one(agree, counts):
    agree(lambda w, y, z: loss_of(w, y * z).backward())
    assert (counts("captures"), counts("compiles"), counts("eager")) == (1, 1, 0)


@pytest.mark.spec("D.27")
def test_a_compiled_backward_gives_the_gradients_of_jax(leaves):
    w, y, _ = leaves()
    with enable():
        loss_of(w, y).backward()
    by_jax = jax.grad(lambda a, b: (jax.numpy.sin(a * b) @ a).sum(), argnums=(0, 1))(
        w.detach().array, y.detach().array
    )
    np.testing.assert_allclose(w.grad.numpy(), by_jax[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(y.grad.numpy(), by_jax[1], rtol=1e-4, atol=1e-5)


def test_views_and_writes_in_place_are_compiled(agree, counts):
    def run(w, y, z):
        h = w * 2
        h[1:] = y[1:] * z[:2]
        h.mul_(3)
        (h.t().reshape(9)[2:] * h.diagonal().sum()).sum().backward()

    agree(run)
    assert (counts("captures"), counts("eager")) == (1, 0)


def test_several_views_of_one_call_are_compiled(agree, counts):
    def run(w, y, z):
        first, second, _ = w.unbind(0)
        (first * y[0] * 2 + second).sum().backward()

    agree(run)
    assert counts("eager") == 0


@pytest.mark.spec("D.24")
def test_other_values_numbers_and_starts_find_the_program(counts):
    for start, number in ((0, 0.5), (1, 0.25), (2, 8.0)):
        x = oplib.randn(4, 3, requires_grad=True)
        with enable():
            (x[start : start + 2] * number).exp().sum().backward()
        expected = np.zeros((4, 3), np.float32)
        expected[start : start + 2] = number * np.exp(x.detach().numpy()[start : start + 2] * number)
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5)
    assert counts("captures") == 1


@pytest.mark.spec("D.24")
@pytest.mark.parametrize(
    "change",
    [
        lambda x: (oplib.randn(4, requires_grad=True) * 2).sum(),
        lambda x: (x * 2).sum().exp(),
        lambda x: (x * 2).to(oplib.float16).sum(),
    ],
    ids=["shape", "op", "dtype"],
)
def test_another_structure_makes_a_program(change, x, counts):
    with enable():
        (x * 2).sum().backward()
        change(oplib.tensor([1.0, 2.0], requires_grad=True)).backward()
    assert counts("captures") == 2


@pytest.mark.spec("D.24")
def test_a_grad_that_is_there_makes_another_program(x, counts):
    with enable():
        for expected in ([4.0, 8.0], [8.0, 16.0], [12.0, 24.0]):
            (x * x * 2).sum().backward()
            assert x.grad.tolist() == expected
    assert counts("captures") == 2


@pytest.mark.spec("D.24")
def test_a_hook_makes_another_program_and_another_hook_at_its_place_does_not(x, counts):
    with enable():
        (x * 2).sum().backward()
        for factor in (3, 4, 5):
            x.grad = None
            y = x * 2
            y.register_hook(lambda g, factor=factor: g * factor)
            y.sum().backward()
            assert x.grad.tolist() == [2.0 * factor] * 2
    assert counts("captures") == 2


@pytest.mark.spec("D.24")
def test_nodes_made_in_another_order_run_in_their_order(counts):
    def run(*, reverse):
        order = []
        x = oplib.tensor([1.0, 2.0], requires_grad=True)
        parts = {}
        for name in ("b", "a") if reverse else ("a", "b"):
            parts[name] = x * 2
            parts[name].register_hook(lambda g, name=name: order.append(name))
        (parts["a"] + parts["b"]).sum().backward()
        return order

    with enable():
        assert run(reverse=False) == ["b", "a"]
        assert run(reverse=True) == ["a", "b"]
        assert run(reverse=False) == ["b", "a"]
    assert counts("captures") == 2


def test_grad_returns_captured_gradients_and_stores_nothing(agree, counts):
    def run(w, y, z):
        a = w * y
        return grad((a.sin() @ w).sum(), (a, w, y, z), allow_unused=True)

    agree(run)
    assert (counts("captures"), counts("eager")) == (1, 0)


def test_backward_with_inputs_reaches_only_these(agree):
    def run(w, y, z):
        a = w * y
        oplib.autograd.backward((a.sin() @ w).sum(), inputs=[y, a])
        return a.grad

    agree(run)


def test_unused_inputs_make_another_program(x):
    other = oplib.tensor([1.0], requires_grad=True)
    with enable():
        assert len(grad((x * x).sum(), x)) == 1
        assert grad((x * x).sum(), (x, other), allow_unused=True)[1] is None


def test_several_roots_and_root_gradients_are_compiled(agree):
    def run(w, y, z):
        a, b = w * y, y.exp() * z
        oplib.autograd.backward([a, b, a.sum()], [z.detach(), w.detach(), None])

    agree(run)


def test_a_retained_graph_runs_again(agree):
    def run(w, y, z):
        loss = loss_of(w, y)
        loss.backward(retain_graph=True)
        loss.backward()

    agree(run)


def test_a_second_backward_raises_before_anything_runs(x):
    y = oplib.tensor([3.0, 4.0], requires_grad=True)
    with enable():
        shared = x * y
        shared.sum().backward()
        before = x.grad.tolist()
        with pytest.raises(
            SavedTensorError, match=r"backward through the graph a second time\. MulBackward0: "
        ):
            ((shared * 2).exp() * x).sum().backward()
        assert x.grad.tolist() == before


def test_a_modified_saved_tensor_raises_before_anything_is_stored(x):
    ran = []
    with enable():
        a = x * 1
        b = a.exp()
        loss = (b * a).sum()
        loss.register_hook(ran.append)
        a.detach().mul_(2)
        with pytest.raises(SavedTensorError, match="modified by an inplace operation"):
            loss.backward()
    assert len(ran) == 1  # as in the eager pass
    assert x.grad is None


def test_the_cache_keeps_nothing_of_a_graph_alive(leaves, collector_off):
    w, y, _ = leaves()
    with enable():
        a = w * y
        loss = a.sum()
        refs = [weakref.ref(a), weakref.ref(a.grad_fn), weakref.ref(w), weakref.ref(w.detach().array)]
        loss.backward()
        del a, loss, w, y
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)


def test_the_cache_holds_the_256_programs_used_last(counts, monkeypatch):
    monkeypatch.setattr("oplib.autograd.compiled_autograd.program_cache.CAPACITY", 2)
    with enable(lambda function: function):
        for size in (1, 2, 1, 3, 1):
            (oplib.ones(size, requires_grad=True) * 2).sum().backward()
        assert counts("captures") == 3
        (oplib.ones(2, requires_grad=True) * 2).sum().backward()
    assert counts("captures") == 4


@pytest.mark.spec("D.23")
def test_a_long_graph_is_several_segments_and_equal_ones_share_an_executable(counts):
    x, y = oplib.ones(2, requires_grad=True), oplib.full((2,), 1.001)
    with enable():
        h = x
        for _ in range(1000):
            h = h * y
        h.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1.001**1000, rtol=1e-3)
    assert counts("captures") == 1
    assert counts("compiles") <= 3


@pytest.mark.spec("D.23")
def test_a_compiler_gets_pure_functions_of_arrays(x):
    seen = []

    def compiler(function):
        seen.append(function)
        return function

    with enable(compiler):
        y = x * 2
        y.register_hook(lambda g: None)
        y.exp().sum().backward()
    assert [function.__name__ for function in seen] == ["CompiledAutograd0", "CompiledAutograd1"]
    assert all(len(function.jaxpr.jaxpr.outvars) == 1 for function in seen)
    assert "MulBackward0" not in str(seen[0])
    assert "mul" in str(seen[1])


def test_leaves_that_share_the_storage_of_their_grads_are_served(counts):
    x, y = oplib.ones(2, requires_grad=True), oplib.ones(2, requires_grad=True)
    x.grad = oplib.zeros(2)
    y.grad = x.grad
    with enable():
        (x * 2 + y * 3).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    assert counts("eager") == 0


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_grad_that_is_a_view_of_another_gets_both_sums(is_turned):
    x, y = oplib.ones(2, requires_grad=True), oplib.ones(2, requires_grad=True)
    x.grad = oplib.zeros(2)
    y.grad = x.grad.view(2)
    with enable():
        (y * 3 + x * 2 if is_turned else x * 2 + y * 3).sum().backward()
    assert x.grad.tolist() == y.grad.tolist() == [5.0, 5.0]


def test_config_is_an_outermost_enable(x, counts):
    oplib.config.compiled_autograd = True
    (x * x).sum().backward()
    assert counts("captures") == 1
    with compiled_autograd.disable():
        (x * x).sum().backward()
    assert x.grad.tolist() == [4.0, 8.0]
    assert counts("captures") == 1
    compiled_autograd.reset()
    assert not oplib.config.compiled_autograd


def test_an_operand_that_several_nodes_read_is_one_argument(counts):
    arguments = []

    def compiler(function):
        arguments.append(len(function.jaxpr.in_avals))
        return function

    def run(*factors):
        x = oplib.ones(2, requires_grad=True)
        h = x
        for factor in factors:
            h = h * factor
        h.sum().backward()
        return x.grad.tolist()

    a, b = oplib.tensor([2.0, 3.0]), oplib.tensor([5.0, 7.0])
    with enable(compiler):
        assert run(a, a, a) == [8.0, 27.0]
        assert run(b, b, b) == [125.0, 343.0]
        assert run(a, b, a) == [20.0, 63.0]
        assert run(b, a, b) == [50.0, 147.0]
    assert arguments == [2, 3]


def test_equal_numbers_do_not_make_another_program(counts):
    with enable():
        for first, second in ((2.0, 3.0), (2.0, 2.0), (3.0, 2.0)):
            x = oplib.ones(2, requires_grad=True)
            (x * first * second).sum().backward()
            assert x.grad.tolist() == [first * second] * 2
    assert counts("captures") == 1


def test_a_tensor_that_got_another_shape_after_its_use_is_served(counts):
    x = oplib.ones(2, 2, requires_grad=True)
    y = x * 2
    loss = (y * 5).sum()
    with oplib.no_grad():
        y.unsqueeze_(0)
    with enable():
        loss.backward(retain_graph=True)
        y.sum().backward()
    assert counts("eager") == 0
    assert x.grad.tolist() == [[12.0, 12.0], [12.0, 12.0]]


@pytest.mark.spec("002.16")
def test_with_the_option_on_a_pass_on_the_cpu_runs_normally(x):
    oplib.config.stage_host_scalars = True
    with enable():
        (x * 2).sum().backward()
    oplib.config.stage_host_scalars = False
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.spec("002.17")
def test_a_program_returns_one_gradient_for_each_requested_input(x, caplog):
    with caplog.at_level(logging.INFO, "oplib.autograd.compiled_autograd.__compiled_autograd"), enable():
        assert len(oplib.autograd.grad((x * x).sum(), x)) == 1
    assert "CompiledAutograd0 = { lambda" in caplog.text


@pytest.mark.spec("002.19")
def test_gradients_are_accumulated_as_soon_as_they_are_there(agree):
    def pass_backward(w, y, z):
        seen = []
        w.register_post_accumulate_grad_hook(lambda leaf: seen.append("w"))
        a = y.exp()
        a.register_hook(lambda g: seen.append("exp"))
        (a * z * w).sum().backward()
        return seen

    agree(pass_backward)


@pytest.mark.spec("002.23", "002.29")
def test_the_labels_of_nodes_are_in_the_program_in_call_order(x):
    stacks = []

    def compiler(function):
        stacks.extend(str(one.source_info.name_stack) for one in function.jaxpr.jaxpr.eqns)
        return function

    with enable(compiler):
        (x * 2).exp().sum().backward()
    found = list(dict.fromkeys(stack.partition("/")[0] for stack in stacks))
    assert found == ["SumBackward0 (NodeCall 0)", "ExpBackward0 (NodeCall 1)", "MulBackward0 (NodeCall 2)"]
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([2.0, 4.0]), rtol=1e-5)


@pytest.mark.spec("002.4", "002.16")
def test_numbers_on_the_host_are_moved_if_it_is_asked_for(x, monkeypatch):
    put, moved = jax.device_put, []
    monkeypatch.setattr(oplib.config, "stage_host_scalars", True)
    monkeypatch.setattr(jax, "device_put", lambda array: moved.append(array.shape) or put(array))
    with enable():
        (x * x).sum().backward()
    assert set(moved) == {()}
    assert x.grad.tolist() == [2.0, 4.0]


def test_views_of_one_call_that_nothing_reads_have_zeros_of_their_own_shape():
    """Two calls that split along the same axis differ in the shapes of their absent gradients."""
    matrix = oplib.ones(4, 2, requires_grad=True)
    vector = oplib.ones(4, requires_grad=True)
    with enable():
        (matrix.split(2)[0].sum() + vector.split(2)[0].sum() * 3).backward()
    assert matrix.grad.tolist() == [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    assert vector.grad.tolist() == [3.0, 3.0, 0.0, 0.0]


@pytest.mark.parametrize("is_written", [False, True])
def test_saved_values_that_were_looked_at_are_read_and_checked_as_others(is_written):
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    square = y * y
    total = square.exp().sum()
    assert len(square.grad_fn._raw_saved_tensors) == 2
    if is_written:
        y.mul_(2)
    with enable(jax.jit):
        if is_written:
            with pytest.raises(SavedTensorError, match=r"MulBackward0: .*modified by an inplace"):
                total.backward()
        else:
            total.backward()
            np.testing.assert_allclose(x.grad.numpy(), [2 * np.e, 4 * np.e**4], rtol=1e-5)
