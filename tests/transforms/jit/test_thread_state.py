"""The state of the thread at each call of a compiled function: as for one op."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.autograd import Variable, detect_anomaly, grad
from oplib.autograd.graph import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    saved_tensors_hooks,
)
from oplib.errors import AutogradError, MisplacedCallError, SavedTensorError
from oplib.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts


def make_leaf():
    return oplib.tensor([1.0, 2.0], requires_grad=True)


def differentiate(function, *contexts):
    """Returns the gradient of a call in a context, whose backward runs outside of it."""
    x = make_leaf()
    for context in contexts:
        with context:
            y = function(x)
    if not contexts:
        y = function(x)
    y.sum().backward()
    return x.grad.tolist()


class Doubling:
    """Hooks that double each value that they keep."""

    def __init__(self):
        self.packed, self.unpacked = [], 0
        self.hooks = saved_tensors_hooks(self.pack, self.unpack)

    def pack(self, tensor):
        self.packed.append(tensor)
        return tensor.detach() * 2

    def unpack(self, kept):
        self.unpacked += 1
        return kept


def square(x):
    return x * x


@pytest.mark.spec("D.52")
@pytest.mark.parametrize("calls_before", [0, 2], ids=["first call", "later call"])
def test_hooks_around_a_call_are_applied_to_what_its_node_keeps(calls_before):
    compiled = oplib.jit(square)
    for _ in range(calls_before):
        assert differentiate(compiled) == [2.0, 4.0]
    doubling = Doubling()
    assert differentiate(compiled, doubling.hooks) == differentiate(square, Doubling().hooks) == [4.0, 8.0]
    assert len(doubling.packed) == doubling.unpacked == 1
    assert differentiate(compiled) == [2.0, 4.0]
    assert differentiate(compiled, Doubling().hooks) == [4.0, 8.0]
    assert compiled.compilations == 2


def test_a_hook_receives_the_operand_itself_and_values_of_the_call():
    weight, doubling = make_leaf(), Doubling()
    compiled = oplib.jit(lambda x, rate: (x[:1] * weight).exp() * rate)
    base = oplib.tensor([3.0, 5.0, 7.0], requires_grad=True)
    with doubling.hooks:
        compiled(base[1:], 0.5)
    assert any(tensor is weight for tensor in doubling.packed)
    assert all(tensor.ndim for tensor in doubling.packed)  # a number is not packed


def test_a_hook_that_raises_leaves_everything_as_it_was():
    total, generator = oplib.zeros(2), oplib.Generator()

    @oplib.jit
    def count(x):
        total.add_(1.0)
        return x * x * oplib.rand(2, generator=generator)

    def refuse(_):
        raise RuntimeError("no room")

    count(make_leaf())
    before = total.tolist(), total._version, generator.get_state()[2]
    with saved_tensors_hooks(refuse, refuse), pytest.raises(RuntimeError, match="no room"):
        count(make_leaf())
    assert (total.tolist(), total._version, generator.get_state()[2]) == before


def test_a_second_derivative_reads_what_the_hooks_give():
    def differentiate_twice(function):
        x = make_leaf()
        with Doubling().hooks:
            y = function(x)
        (first,) = grad(y.sum(), x, create_graph=True)
        return first.tolist()

    cube = oplib.jit(square)
    assert differentiate_twice(cube) == differentiate_twice(square) == [4.0, 8.0]


def test_composed_hooks_and_hooks_in_the_backward_come_in_their_order():
    def run(function):
        order = []

        def make(name, **options):
            def pack(tensor):
                order.append(f"{name} packs")
                return tensor

            def unpack(tensor):
                order.append(f"{name} unpacks")
                return tensor

            return saved_tensors_hooks(pack, unpack, **options)

        x = make_leaf()
        with make("outer"), make("inner", compose=True):
            y = function(x)
        with make("backward"):
            (first,) = grad(y.sum(), x, create_graph=True)
        first.sum().backward()
        return order[:4], {entry.partition(" ")[0] for entry in order}, x.grad.tolist()

    assert run(oplib.jit(lambda x: x.sin())) == run(lambda x: x.sin())


def hook_inside(x):
    with saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
        return x * x


def test_hooks_inside_are_refused_at_each_call_where_they_are_disabled():
    compiled = oplib.jit(hook_inside)
    assert differentiate(compiled) == [2.0, 4.0]
    for message in ("not here", "nor here"):
        with disable_saved_tensors_hooks(message), pytest.raises(AutogradError, match=message):
            compiled(make_leaf())
    assert differentiate(compiled) == [2.0, 4.0]


def write_saved(x):
    y = x * 2
    z = y.sin()
    y.add_(1.0)
    return z


@pytest.mark.parametrize("order", ["allowed first", "refused first"])
def test_writes_of_saved_tensors_are_allowed_where_the_call_is_in_the_block(order):
    compiled = oplib.jit(write_saved)

    def allow(function, *, inside):
        x = make_leaf()
        with allow_mutation_on_saved_tensors():
            z = function(x)
            if inside:
                z.sum().backward()
        if not inside:
            z.sum().backward()
        return x.grad.tolist()

    def check_allowed():
        assert allow(compiled, inside=True) == allow(write_saved, inside=True)
        with pytest.raises(MisplacedCallError):
            allow(compiled, inside=False)

    def check_refused():
        with pytest.raises(SavedTensorError, match="modified by an inplace"):
            differentiate(compiled)

    checks = [check_allowed, check_refused, check_allowed, check_refused]
    for check in checks if order == "allowed first" else reversed(checks):
        check()


def test_a_second_derivative_of_a_call_in_the_block_allows_the_writes_too():
    def run(function):
        x = make_leaf()
        with allow_mutation_on_saved_tensors():
            (first,) = grad(function(x).sum(), x, create_graph=True)
            (second,) = grad(first.sum(), x)
        return first.tolist(), second.tolist()

    np.testing.assert_allclose(run(oplib.jit(write_saved)), run(write_saved), rtol=1e-6)


def test_an_inner_block_that_permits_writes_is_refused_where_one_is_active():
    @oplib.jit
    def permit(x):
        with allow_mutation_on_saved_tensors():
            return grad((x * x).sum(), x)[0]

    assert permit(make_leaf()).tolist() == [2.0, 4.0]
    with (
        allow_mutation_on_saved_tensors(),
        pytest.raises(AutogradError, match="allow_mutation_on_saved_tensors"),
    ):
        permit(make_leaf())


calls = []


@oplib.library.custom_op("thread_state::host_sine", mutates_args=())
def host_sine(x: np.ndarray) -> np.ndarray:
    calls.append(x.shape)
    return np.sin(x)


@host_sine.register_fake
def _(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def save_input(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


@host_sine.register_autograd(setup_context=save_input)
def host_sine_backward(ctx, g):
    return g * jnp.cos(ctx.saved_tensors[0])


@pytest.mark.spec("D.52")
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("first", ["plain", "checkpoint"])
def test_a_checkpoint_decides_at_each_call_whether_kernels_run_again(first, reentrant):
    compiled = oplib.jit(lambda x: host_sine(x * 2).exp())

    def count(*, is_checkpointed):
        calls.clear()
        x = make_leaf()
        y = checkpoint(compiled, x, use_reentrant=reentrant) if is_checkpointed else compiled(x)
        forward = len(calls)
        y.sum().backward()
        np.testing.assert_allclose(x.grad.tolist(), differentiate(lambda x: (x * 2).sin().exp()), rtol=1e-5)
        return forward, len(calls)

    for is_checkpointed in [first == "checkpoint", first != "checkpoint"] * 2:
        assert count(is_checkpointed=is_checkpointed) == ((1, 2) if is_checkpointed else (1, 1))


def test_a_checkpoint_around_a_call_draws_the_same_numbers_again():
    generator = oplib.Generator().manual_seed(3)

    def drop(x):
        return (x * (oplib.rand(16, generator=generator) > 0.5)).sin()

    compiled = oplib.jit(drop)
    for function in (drop, compiled, compiled):
        generator.manual_seed(5)
        x = oplib.ones(16, requires_grad=True)
        y = checkpoint(function, x, use_reentrant=False)
        after = generator.get_state()[2]
        y.sum().backward()
        assert [value != 0 for value in y.tolist()] == [value != 0 for value in x.grad.tolist()]
        assert generator.get_state()[2] == after == 1


def test_a_policy_of_a_checkpoint_sees_no_op_of_a_program():
    seen = []

    def keep(ctx, op, *args, **kwargs):
        seen.append(op)
        return CheckpointPolicy.MUST_SAVE

    compiled = oplib.jit(lambda x: x.sin().exp())
    for _ in range(2):
        x = make_leaf()
        y = checkpoint(
            compiled,
            x,
            use_reentrant=False,
            context_fn=lambda: create_selective_checkpoint_contexts(keep),
        )
        y.sum().backward()
        np.testing.assert_allclose(x.grad.tolist(), differentiate(lambda x: x.sin().exp()), rtol=1e-6)
    assert seen == []


@pytest.mark.filterwarnings("ignore:Anomaly Detection", "ignore:Error detected")
def test_anomaly_detection_finds_the_op_inside_a_compiled_function():
    @oplib.jit
    def divide(x):
        (gradient,) = grad(((x * 0).sqrt() * 0).sum(), x)
        return gradient

    for _ in range(2):
        assert divide(make_leaf()).isnan().all()
        with detect_anomaly(), pytest.raises(AutogradError, match="SqrtBackward0"):
            divide(make_leaf())


def test_a_callback_for_the_run_around_a_call_is_refused_inside_it():
    x = make_leaf()

    @oplib.jit
    def double(gradient):
        Variable._execution_engine.queue_callback(lambda: None)
        return gradient * 2

    x.register_hook(double)
    for _ in range(2):
        with pytest.raises(AutogradError, match="queue_callback"):
            (x * x).sum().backward()
