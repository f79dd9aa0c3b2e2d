"""Hooks and the backwards of Functions run as Python between compiled segments, as in the eager run."""

import threading

import numpy as np
import pytest

import oplib
import oplib.autograd as autograd
from oplib.autograd import Function, compiled_autograd, grad
from oplib.autograd.compiled_autograd import enable
from oplib.autograd.graph import register_multi_grad_hook, saved_tensors_hooks
from oplib.errors import AutogradError, GradientTypeError, SavedTensorError
from oplib.utils.checkpoint import checkpoint

pytestmark = pytest.mark.spec("D.14")


class Scale(Function):
    """Multiplies by a number."""

    @staticmethod
    def forward(ctx, x, number):
        ctx.save_for_backward(x)
        ctx.number = number
        return x * number

    @staticmethod
    def backward(ctx, grad):
        assert len(ctx.saved_tensors) == 1
        return grad * ctx.number, None


class Choose(Function):
    """A sum whose backward gives the gradients that ``wanted`` names."""

    @staticmethod
    def forward(ctx, x, y, wanted):
        ctx.wanted = wanted
        return x + y

    @staticmethod
    def backward(ctx, grad):
        return *[grad * 2 if name in ctx.wanted else None for name in ("x", "y")], None


class Log(list):
    """What ran, in order."""

    def hook(self, name, function=None):
        def run(*args):
            self.append(name)
            return None if function is None else function(*args)

        return run


@pytest.mark.spec("E.3", "002.10", "002.11", "002.12", "002.13", "002.14", "002.15")
def test_all_hooks_run_in_the_order_of_eager_and_change_gradients(agree, counts):
    def run(w, y, z):
        log = Log()
        a = w * y
        a.register_hook(log.hook("tensor of a", lambda g: g * 2))
        a.retain_grad()
        a.grad_fn.register_prehook(log.hook("pre of a", lambda grads: (grads[0] + 1,)))
        a.grad_fn.register_hook(
            log.hook("post of a", lambda results, grads: (results[0] * grads[0], results[1]))
        )
        b = (Scale.apply(a, 3.0) @ w).tanh()
        b.grad_fn.register_hook(log.hook("post of b"))
        y.register_hook(log.hook("tensor of y", lambda g: g / 2))
        w.register_post_accumulate_grad_hook(log.hook("accumulated w"))
        (b * z).sum().backward()
        return [list(log), a.grad]

    agree(run)
    assert counts("eager") == 0


def test_hooks_of_one_kind_run_in_the_order_of_registration_and_see_each_other(agree):
    def run(w, y, z):
        log = Log()
        a = w * y
        for name, factor in (("first", 2), ("second", 3)):
            a.register_hook(log.hook(name, lambda g, factor=factor: g * factor + 1))
        a.sum().backward()
        return list(log)

    agree(run)


def test_hooks_get_tuples_and_concrete_tensors(x):
    seen = []
    with enable():
        y = x * 2
        y.grad_fn.register_hook(lambda results, grads: seen.extend([results, grads]))
        y.grad_fn.register_prehook(lambda grads: seen.append(grads))
        y.sum().backward()
    assert all(type(one) is tuple for one in seen)
    assert seen[0][0].tolist() == [1.0, 1.0]
    assert seen[1][0].tolist() == [2.0, 2.0]


def test_hooks_of_captured_nodes_run_as_in_eager(agree):
    def run(w, y, z):
        log = Log()
        a, b = w * y, y * z
        c = a.sin() * b
        a.register_hook(log.hook("a", lambda g: g * 100))
        b.register_hook(log.hook("b", lambda g: g * 10))
        found = grad(c.sum(), [a, b, z])
        return [list(log), *found]

    agree(run)


def test_multi_grad_hooks_and_callbacks_run_as_in_eager(agree):
    def run(w, y, z):
        log = Log()
        a = w * y
        register_multi_grad_hook((w, y, a, z), lambda grads: log.append([one is None for one in grads]))
        register_multi_grad_hook((w, a), log.hook("any"), mode="any")
        queue = autograd.Variable._execution_engine.queue_callback
        a.register_hook(lambda g: queue(log.hook("callback")))
        w.register_hook(log.hook("w"))
        a.exp().sum().backward()
        return list(log)

    agree(run)


@pytest.mark.spec("002.29")
def test_what_hooks_can_ask_of_the_engine_is_as_in_eager(agree):
    def run(w, y, z):
        seen = []
        a = w * y

        def ask(g):
            seen.append(
                [
                    autograd._will_engine_execute_node(a.grad_fn),
                    autograd._is_checkpoint_valid(),
                    autograd._current_graph_task_id() >= 0,
                    [node.name() for node in autograd._current_graph_task_execution_order()],
                    oplib.is_grad_enabled(),
                ]
            )

        a.register_hook(ask)
        a.exp().sum().backward()
        return seen

    agree(run)


@pytest.mark.spec("D.25")
@pytest.mark.parametrize("wanted", ["x", "y", "", "xy"])
def test_a_function_that_gives_none_goes_on_compiled(wanted, agree, counts):
    def run(w, y, z):
        a = Choose.apply(w * 2, y * 3, wanted)
        (a * z).exp().sum().backward()

    agree(run)
    assert counts("eager") == 0
    assert counts("captures") == 1


@pytest.mark.spec("D.25")
def test_pre_and_post_hooks_that_give_none_go_on_compiled(agree, counts):
    def run(w, y, z):
        a = w * y
        a.grad_fn.register_hook(lambda results, grads: (None, results[1]))
        b = (z * 2).exp()
        b.grad_fn.register_prehook(lambda grads: (None,))
        (a.sin() * b).sum().backward()
        return [w.grad is None, z.grad is None]

    agree(run)
    assert counts("eager") == 0


@pytest.mark.spec("D.25")
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("wanted", ["x", ""])
def test_a_pass_that_continues_eagerly_keeps_the_gradients_that_have_arrived(captured, wanted, agree, counts):
    """Sums of which one part has arrived, nodes that wait, retained and captured gradients stay."""

    def run(w, y, z):
        log = Log()
        early = (w * 2).exp()
        early.retain_grad()
        shared = y * z
        shared.register_hook(log.hook("shared", lambda g: g * 3))
        chosen = Choose.apply(early * shared, shared.sin(), wanted)
        late = chosen * shared + early + shared.unbind(0)[1]
        late.grad_fn.register_prehook(log.hook("pre of late"))
        loss = (late @ w).sum() + shared.sum()
        if captured:
            return [list(log), *grad(loss, (late, shared, w, y), allow_unused=True), early.grad]
        loss.backward()
        return [list(log), early.grad]

    agree(run)
    assert counts("eager") == 0


@pytest.mark.spec("D.25")
def test_a_later_part_on_another_device_runs_line_by_line(agree, counts, monkeypatch):
    """A program of more than 200 calls is several parts, and any of them may fail to serve."""
    from oplib.autograd.compiled_autograd import deferred, program_cache

    run_program, calls = program_cache.BackwardProgram.run, []

    def fail_second(program, inputs):
        calls.append(program)
        if len(calls) == 2:
            raise ValueError("arrays on several devices")
        return run_program(program, inputs)

    monkeypatch.setattr(program_cache.BackwardProgram, "run", fail_second)
    monkeypatch.setattr(deferred, "_are_apart", lambda arrays: True)

    def run(w, y, z):
        calls.clear()
        h = w
        for _ in range(150):
            h = h * y + w * 0.01
        (h * z).sum().backward()

    agree(run)
    assert counts("eager") == 2


@pytest.mark.spec("D.25")
def test_results_of_functions_are_validated_and_fitted_at_run_time(agree, x):
    class Spread(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return oplib.ones(2, *grad.shape) * grad

    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return oplib.ones(7)

    agree(lambda w, y, z: (Spread.apply(w * y) * z).sum().backward())
    with (
        enable(),
        pytest.raises(AutogradError, match="WrongBackward returned an invalid gradient at index 0"),
    ):
        Wrong.apply(x * 2).sum().backward()


def test_a_hook_registered_during_the_pass_runs(agree, counts):
    def run(w, y, z):
        log = Log()
        a = w * y
        b = a.sin()
        b.register_hook(lambda g: a.register_hook(log.hook("a", lambda g: g * 5)) and None)
        b.sum().backward()
        return list(log)

    agree(run)
    assert counts("eager") == 0


def test_a_hook_removed_during_the_pass_does_not_run(agree):
    def run(w, y, z):
        log = Log()
        a = w * y
        handle = a.register_hook(log.hook("a", lambda g: g * 5))
        b = a.sin()
        b.register_hook(lambda g: handle.remove())
        b.sum().backward()
        return list(log)

    agree(run)


def test_a_grad_that_a_hook_clears_or_makes_is_found(agree, counts):
    def run(w, y, z):
        w.grad = oplib.ones(3, 3)
        a = w * y

        def change(g):
            w.grad = None
            y.grad = oplib.full((3, 3), 7.0)

        a.register_hook(change)
        a.sum().backward()

    agree(run)
    assert counts("eager") == 0


def test_a_saved_tensor_that_a_hook_writes_raises_as_in_eager(x):
    with enable():
        a = x * 1
        b = a.exp()
        c = b * a
        c.register_hook(lambda g: a.detach().mul_(2) * 0 + g)
        with pytest.raises(SavedTensorError, match=r"MulBackward0: a tensor needed .* modified"):
            c.sum().backward()


@pytest.mark.spec("E.6")
def test_an_error_in_a_hook_is_raised_and_nodes_not_reached_stay_usable(x):
    def fail(g):
        raise KeyError("mine")

    with enable():
        a = x * x
        b = a * a
        handle = a.register_hook(fail)
        with pytest.raises(KeyError, match="mine"):
            b.sum().backward()
        assert not compiled_autograd.in_compiled_autograd_region
        handle.remove()
        with pytest.raises(SavedTensorError, match="second time"):
            b.sum().backward()
        a.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_post_accumulate_hook_that_returns_a_value_raises_after_the_accumulation(x):
    x.register_post_accumulate_grad_hook(lambda leaf: leaf)
    with enable(), pytest.raises(GradientTypeError, match="should return None"):
        (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_post_accumulate_hooks_may_be_optimizers(agree):
    def run(w, y, z):
        def step(leaf):
            with oplib.no_grad():
                leaf.sub_(leaf.grad * 0.1)
            leaf.grad = None

        for leaf in (w, y):
            leaf.register_post_accumulate_grad_hook(step)
        for _ in range(3):
            ((w * y).sin() @ z).sum().backward()
        return [w.detach(), y.detach()]

    agree(run)


@pytest.mark.spec("E.7")
def test_a_sum_is_written_into_the_same_grad_and_its_version_counts(x):
    with enable():
        (x * 2).sum().backward()
        held, version = x.grad, x.grad._version
        (x * 3).sum().backward()
    assert x.grad is held
    assert held._version == version + 1
    assert held.tolist() == [5.0, 5.0]


@pytest.mark.spec("E.8", "D.7")
def test_a_nested_backward_in_a_hook_is_eager_and_its_gradients_count(agree, counts):
    def run(w, y, z):
        a = w * y

        def nested(g):
            assert not compiled_autograd.compiled_autograd_enabled
            with oplib.enable_grad():
                (w * z).sum().backward()

        a.register_hook(nested)
        a.sum().backward()

    agree(run)
    assert counts("captures") == 1


@pytest.mark.spec("D.7")
def test_a_host_step_may_enable_and_disable(x, counts):
    seen = []

    def nested(g):
        with enable(), oplib.enable_grad():
            seen.append(compiled_autograd.compiled_autograd_enabled)
            (oplib.ones(3, requires_grad=True) * 2).sum().backward()
        seen.append(compiled_autograd.in_compiled_autograd_region)

    with enable():
        y = x * 2
        y.register_hook(nested)
        y.sum().backward()
        assert compiled_autograd.compiled_autograd_enabled
    assert seen == [True, True]
    assert counts("captures") == 2


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_work_as_in_eager(reentrant, agree):
    def run(w, y, z):
        h = checkpoint(lambda a, b: (a * b).sin() @ a, w * 1, y * 1, use_reentrant=reentrant)
        (h * z).sum().backward()

    agree(run)


@pytest.mark.spec("D.26")
def test_saved_tensor_hooks_unpack_once_for_each_slot(agree):
    def run(w, y, z):
        log = Log()
        with saved_tensors_hooks(
            log.hook("pack", lambda t: t.numpy(force=True)), log.hook("unpack", oplib.tensor)
        ):
            a = w * y
        (a.sin() * z).sum().backward()
        return list(log)

    agree(run)


@pytest.mark.spec("D.26")
def test_create_graph_runs_eagerly_and_gives_second_derivatives(agree, counts):
    def run(w, y, z):
        (first,) = grad((w * w * y).sin().sum(), w, create_graph=True)
        (first * z).sum().backward()

    agree(run)
    assert counts("eager") == 2
    assert counts("captures") == 1


@pytest.mark.spec("D.26")
def test_threads_run_compiled_passes_at_once(leaves):
    y = leaves()[1]
    results, barrier = {}, threading.Barrier(4)

    def work(number):
        leaf = oplib.full((3, 3), float(number + 1), requires_grad=True)
        barrier.wait()
        for _ in range(20):
            a = leaf * y.detach()
            a.register_hook(lambda g: g * 2)
            a.exp().sum().backward()
        results[number] = leaf.grad.numpy()

    with enable():
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    numbers = y.detach().numpy()
    for number in range(4):
        expected = 40 * numbers * np.exp((number + 1) * numbers)
        np.testing.assert_allclose(results[number], expected, rtol=1e-4)


@pytest.mark.spec("D.26")
def test_threads_that_share_leaves_lose_no_gradient():
    x = oplib.ones(2, requires_grad=True)
    x.grad = oplib.zeros(2)
    barrier = threading.Barrier(4)

    def work():
        barrier.wait()
        for _ in range(25):
            (x * 2).sum().backward()

    with enable():
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert x.grad.tolist() == [200.0, 200.0]


@pytest.mark.spec("D.25")
def test_a_traceable_function_is_part_of_the_segment(agree, counts):
    ran = []

    class Power(Function):
        is_traceable = True

        @staticmethod
        def forward(ctx, x, y, exponent):
            ctx.save_for_backward(x, y)
            ctx.exponent = exponent
            return x**exponent * y

        @staticmethod
        def backward(ctx, grad):
            ran.append(ctx.exponent)
            x, y = ctx.saved_tensors
            n = ctx.exponent
            return grad * n * x ** (n - 1) * y, grad * x**n, None

    agree(lambda w, y, z: (Power.apply(w * 2, y, 3) * z).sum().backward())
    assert (counts("compiles"), counts("eager")) == (1, 0)
    assert len(ran) == 2  # once eagerly, and once while it was traced
    agree(lambda w, y, z: (Power.apply(w * 2, y, 2) * z).sum().backward())
    assert counts("compiles") == 2  # another exponent is another program


@pytest.mark.spec("D.25")
def test_a_traceable_function_with_an_attribute_without_hash_is_a_host_step(agree, counts):
    class Listed(Function):
        is_traceable = True

        @staticmethod
        def forward(ctx, x):
            ctx.numbers = [2.0]
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.numbers[0]

    agree(lambda w, y, z: (Listed.apply(w * y) * z).sum().backward())
    assert counts("compiles") == 2
