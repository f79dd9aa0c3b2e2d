"""When a compiled function compiles again, what it says of that, and what it keeps alive."""

import gc
import logging
import threading
import weakref

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.errors import CompilationWarning
from oplib.tensor.storage.fresh import get_array

pytestmark = pytest.mark.spec("J.4")


class Holder:
    def __init__(self, weight):
        self.weight, self.scale = weight, 1


def test_a_replaced_tensor_of_the_same_kind_compiles_nothing():
    holder = Holder(oplib.ones(2))
    scaled = oplib.jit(lambda x: x * holder.weight)
    scaled(oplib.ones(2))
    holder.weight = oplib.full((2,), 3.0)
    assert scaled(oplib.ones(2)).tolist() == [3, 3]
    assert scaled.compilations == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda holder: setattr(holder, "weight", oplib.ones(1)),
        lambda holder: holder.weight.requires_grad_(),
        lambda holder: setattr(holder.weight, "data", oplib.ones(1)),
        lambda holder: setattr(holder, "scale", 2),
        lambda holder: setattr(holder, "weight", oplib.ones(2, 2)[0]),
    ],
)
def test_what_differs_in_a_captured_tensor_or_beside_it_compiles_again(change):
    holder = Holder(oplib.ones(2))
    scaled = oplib.jit(lambda x: x * holder.weight * holder.scale)
    plain = scaled.__wrapped__
    scaled(oplib.ones(2))
    change(holder)
    assert "serves this call" not in scaled.explain(oplib.ones(2))
    assert scaled(oplib.ones(2)).tolist() == plain(oplib.ones(2)).tolist()
    assert scaled.compilations == 2


def test_a_hook_on_an_operand_compiles_again_and_runs():
    weight = oplib.ones(2, requires_grad=True)
    step = oplib.jit(lambda x: (x * weight).sum().backward())
    step(oplib.ones(2))
    weight.grad = None
    handle = weight.register_hook(lambda grad: grad * 10)
    step(oplib.ones(2))
    assert weight.grad.tolist() == [10, 10]
    handle.remove()
    step(oplib.ones(2))
    assert weight.grad.tolist() == [11, 11]


def test_grad_mode_is_part_of_what_a_program_is_compiled_for():
    weight = oplib.ones(2, requires_grad=True)
    scaled = oplib.jit(lambda x: x * weight)
    assert scaled(oplib.ones(2)).requires_grad
    with oplib.no_grad():
        assert not scaled(oplib.ones(2)).requires_grad
    assert scaled.compilations == 2


def test_explain_tells_before_the_call_why_it_would_compile():
    scaled = oplib.jit(lambda x: x * 2)
    assert "has not been compiled yet" in scaled.explain(oplib.ones(2))
    scaled(oplib.ones(2))
    assert "a compiled program serves" in scaled.explain(oplib.ones(2))
    assert "is f32[3], and was f32[2]" in scaled.explain(oplib.ones(3))
    assert scaled.compilations == 1


def test_each_compilation_is_logged_with_its_reason(caplog):
    scaled = oplib.jit(lambda x: x * 2)
    with caplog.at_level(logging.INFO, "oplib.jit"):
        scaled(oplib.ones(2))
        scaled(oplib.ones(3))
    assert [record.name for record in caplog.records] == ["oplib.jit"] * 2
    assert "program 2 because argument 'x' is f32[3], and was f32[2]" in caplog.records[1].getMessage()


def test_the_eighth_program_warns_and_says_what_differs():
    scaled = oplib.jit(lambda x: x * 2)
    for length in range(1, 8):
        scaled(oplib.ones(length))
    with pytest.warns(CompilationWarning, match="has compiled 8 programs.*is f32.8., and was f32.7."):
        scaled(oplib.ones(8))


def test_the_warning_of_many_programs_names_the_line_of_the_user():
    scaled = oplib.jit(lambda x: x * 2)
    for length in range(1, 8):
        scaled(oplib.ones(length))
    with pytest.warns(CompilationWarning) as found:
        scaled(oplib.ones(8))
    assert [one.filename for one in found] == [__file__]


def test_the_reason_compares_with_the_most_similar_program(caplog):
    caplog.set_level(logging.INFO, logger="oplib.jit")
    scaled = oplib.jit(lambda x, name: x * 2)
    scaled(oplib.ones(2), "a")
    with oplib.no_grad():
        scaled(oplib.ones(2), "b")
    scaled(oplib.ones(2), "c")
    assert caplog.records[-1].getMessage().endswith("because argument 'name' is 'c', and was 'a'")


def test_lower_gives_the_program_and_runs_nothing():
    weight = oplib.zeros(2)
    lowered = oplib.jit(lambda x: weight.add_(x)).lower(oplib.ones(2))
    assert isinstance(lowered, jax.stages.Lowered)
    assert weight.tolist() == [0, 0]


def test_a_program_that_was_lowered_is_compiled_by_the_first_call():
    weight = oplib.zeros(2)
    add = oplib.jit(lambda x: weight.add_(x))
    add.lower(oplib.ones(2))
    for count in (1, 2):
        assert add(oplib.ones(2)).tolist() == [count] * 2
    assert add.compilations == 1


def test_clear_forgets_all_programs():
    scaled = oplib.jit(lambda x: x * 2)
    scaled(oplib.ones(2))
    scaled.clear()
    scaled(oplib.ones(2))
    assert scaled.compilations == 2


def test_a_method_has_programs_for_each_instance():
    class Counter:
        def __init__(self):
            self.total = oplib.zeros(2)

        @oplib.jit
        def add(self, x):
            return self.total.add_(x)

    one, other = Counter(), Counter()
    one.add(oplib.ones(2))
    one.add(oplib.ones(2))
    other.add(oplib.ones(2))
    assert (one.total.tolist(), other.total.tolist()) == ([2, 2], [1, 1])
    assert one.add.compilations == other.add.compilations == 1


@pytest.mark.spec("J.13")
def test_nothing_is_kept_alive():
    holder = Holder(oplib.ones(2, requires_grad=True))

    def make(holder):
        return oplib.jit(lambda x: ((x * holder.weight).sum().backward(), x)[1])

    step, x = make(holder), oplib.ones(2)
    step(x)
    step(x)
    refs = [weakref.ref(one) for one in (x, holder, holder.weight)]
    del x
    gc.collect()
    assert refs[0]() is None
    del holder, step
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3


@pytest.mark.spec("J.11")
def test_threads_lose_no_write():
    total = oplib.zeros(2)
    step = oplib.jit(lambda: total.add_(1))
    threads = [threading.Thread(target=lambda: [step() for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total.tolist() == [200, 200]


@pytest.mark.spec("J.11")
def test_another_thread_sees_its_own_values_while_one_traces():
    weight, inside, done = oplib.ones(2), threading.Event(), threading.Event()
    seen = []

    def slow(x):
        weight.mul_(5)
        inside.set()
        assert done.wait(300)
        return x * weight

    def read():
        assert inside.wait(300)
        seen.append((weight + 1).tolist())
        done.set()

    reader = threading.Thread(target=read)
    reader.start()
    result = oplib.jit(slow)(oplib.ones(2))
    reader.join()
    assert seen == [[2, 2]]
    assert result.tolist() == weight.tolist() == [5, 5]


@pytest.mark.spec("J.12")
def test_inside_another_trace_it_is_inlined():
    weight = oplib.ones(2)
    inner = oplib.jit(lambda x: x * weight)
    assert oplib.jit(lambda x: inner(x) + 1)(oplib.ones(2)).tolist() == [2, 2]
    assert jax.jit(lambda a: inner(oplib.Tensor.from_array(a)).array)(jnp.ones(2)).tolist() == [1, 1]
    assert oplib.vmap(inner)(oplib.ones(3, 2)).tolist() == [[1, 1]] * 3
    assert inner.compilations == 0


@pytest.mark.spec("J.10")
def test_a_buffer_that_somebody_reads_survives_the_next_call():
    weight = oplib.zeros(4)
    step = oplib.jit(lambda: weight.add_(1))
    step()
    held = weight.array
    step()
    step()
    assert held.tolist() == [1] * 4
    assert weight.tolist() == [3] * 4


@pytest.mark.spec("J.10")
def test_a_buffer_that_nobody_has_read_is_donated():
    weight = oplib.zeros(4)
    step = oplib.jit(lambda: (weight.add_(1), None)[1])
    step()
    buffer = get_array(weight._storage)
    assert not buffer.is_deleted()
    step()
    assert buffer.is_deleted()
    assert weight.tolist() == [2] * 4
    plain = oplib.jit(lambda: (weight.add_(1), None)[1], donate=False)
    plain()
    buffer = weight.array
    plain()
    assert not buffer.is_deleted()


@pytest.mark.spec("J.10")
def test_a_donated_buffer_gets_the_new_value_of_its_own_tensor():
    weight, momentum = oplib.ones(64, 64, requires_grad=True), oplib.zeros(64, 64)

    @oplib.jit
    def step(x):
        weight.grad = None
        (weight * weight * x).sum().backward()  # the gradient is a result of the same shape
        with oplib.no_grad():
            momentum.mul_(0.9).add_(weight.grad)
            weight.sub_(momentum)

    def by_hand(weight, momentum, x):
        grad = jax.grad(lambda weight: (weight * weight * x).sum())(weight)
        momentum = momentum * 0.9 + grad
        return weight - momentum, momentum, grad

    ones = jnp.ones((64, 64))
    pure = jax.jit(by_hand, donate_argnums=(0, 1)).lower(ones, ones, ones)
    programs = [lowered.compile().as_text() for lowered in (step.lower(oplib.ones(64, 64)), pure)]
    assert programs[0].count(" copy(") == programs[1].count(" copy(")


@pytest.mark.spec("J.10")
def test_a_program_that_only_reads_leaves_buffers_to_the_program_that_writes_them():
    weight = oplib.zeros(4)
    step, read = oplib.jit(lambda: (weight.add_(1), None)[1]), oplib.jit(lambda: weight.sum())
    step()
    assert read().item() == 4  # it is traced, so the next step copies
    step()
    assert read().item() == 8
    buffer = get_array(weight._storage)
    step()
    assert buffer.is_deleted()
    assert read().item() == 12


@pytest.mark.spec("J.10")
def test_a_gradient_that_a_program_made_is_accumulated_in_its_buffer():
    weight = oplib.ones(4, requires_grad=True)
    first = oplib.jit(lambda x: (setattr(weight, "grad", None), (weight * x).sum().backward())[1])
    add = oplib.jit(lambda x: (weight * x).sum().backward())
    for _ in range(3):
        first(oplib.ones(4))
        buffer = get_array(weight.grad._storage)
        add(oplib.ones(4))
        assert weight.grad.tolist() == [2] * 4
    assert buffer.is_deleted()


@pytest.mark.spec("J.10", "J.14")
@pytest.mark.devices(8)
def test_sharded_arrays_that_are_read_after_each_call_keep_their_sharding():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    spread, whole = jax.NamedSharding(mesh, jax.P("data")), jax.NamedSharding(mesh, jax.P())
    tensors = [oplib.Tensor.from_array(jax.device_put(jnp.zeros((8, 2)), one)) for one in (spread, whole)]
    step = oplib.jit(lambda: [tensor.add_(1) for tensor in tensors][2:])
    for turn in range(4):
        step()
        assert [tensor.array.sharding for tensor in tensors] == [spread, whole]
        assert all(tensor.tolist() == [[turn + 1] * 2] * 8 for tensor in tensors)
    assert step.compilations == 1


@pytest.mark.spec("J.4", "J.10")
def test_jax_compiles_a_program_once_and_commits_nothing_to_a_device(caplog):
    tensors = [oplib.zeros(3), oplib.zeros(3)]

    @oplib.jit
    def step_of_its_own():
        for tensor in tensors:
            tensor.add_(1)

    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        for _ in range(3):
            step_of_its_own()
    found = [
        one for one in caplog.messages if one.startswith("Finished XLA compilation of jit(step_of_its_own)")
    ]
    assert len(found) == 1
    assert not any(tensor.array.committed for tensor in tensors)


@pytest.mark.spec("J.10")
def test_what_a_backward_outside_needs_is_not_donated():
    weight, x = oplib.ones(4), oplib.ones(4, requires_grad=True)
    scale = oplib.jit(lambda x: (x * weight).sum())
    step = oplib.jit(lambda: (weight.data.add_(1), None)[1])  # a write that no version counts
    scale(x)
    step()
    step()
    loss = scale(x)
    step()
    loss.backward()
    assert x.grad.tolist() == [3] * 4
    assert weight.tolist() == [4] * 4


@pytest.mark.spec("J.10")
def test_an_array_that_a_program_passes_through_is_shared_by_nobody_who_writes():
    def run(compile_function):
        def step():
            total.add_(other)
            other.copy_(one)
            one.add_(total)

        one, other, total = oplib.tensor([1.0, 2.0]), oplib.tensor([3.0, 4.0]), oplib.zeros(2)
        run_step = compile_function(step)
        for _ in range(4):
            run_step()
        return one.tolist(), other.tolist(), total.tolist()

    assert run(oplib.jit) == run(lambda step: step)


@pytest.mark.spec("J.11")
def test_a_thread_reads_fresh_buffers_while_another_compiles():
    weight, seen = oplib.zeros(4), []
    step = oplib.jit(lambda: (weight.add_(1), None)[1])
    step()

    def host(array):
        thread = threading.Thread(target=lambda: seen.append(weight.tolist()))
        thread.start()
        thread.join(300)
        return array

    slow = oplib.jit(lambda x: host(x) * weight)
    assert slow(oplib.ones(4)).tolist() == [1] * 4
    assert seen == [[1] * 4]


@pytest.mark.spec("J.14")
@pytest.mark.devices(8)
def test_sharded_parameters_keep_their_sharding():
    mesh = jax.make_mesh((8,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = jax.NamedSharding(mesh, jax.P("data"))
    weight = oplib.Tensor.from_array(jax.device_put(jnp.ones((8, 2)), spread)).requires_grad_()

    def train(x):
        weight.grad = None
        (x * weight).sum().backward()
        with oplib.no_grad():
            weight.sub_(weight.grad, alpha=0.1)

    step = oplib.jit(train)
    for _ in range(3):
        step(oplib.Tensor.from_array(jax.device_put(jnp.ones((8, 2)), spread)))
    assert weight.array.sharding == spread
    assert weight.tolist() == [[pytest.approx(0.7)] * 2] * 8


def test_the_default_matmul_precision_is_a_part_of_the_program():
    multiply = oplib.jit(lambda x: x @ x)
    x = oplib.ones(2, 2)
    multiply(x)
    with jax.default_matmul_precision("highest"):
        assert "default matmul precision is highest, and was None" in multiply.explain(x)
        assert "HIGHEST" in multiply.lower(x).as_text()
    assert "HIGHEST" not in multiply.lower(x).as_text()
    assert multiply.compilations == 2
