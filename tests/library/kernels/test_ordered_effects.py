"""Host ops with Tag.ordered: their calls are neither merged nor dropped, and run in program order."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.sharding import NamedSharding, PartitionSpec

import oplib
from oplib import Tag
from oplib.errors import MissingRuleError, RegistrationError, RegistrationValueError, TracingError
from oplib.library import custom_op, define, impl, opcheck

X = jnp.array([1.0, 2.0])
JOURNAL: list[str] = []


@pytest.fixture(autouse=True)
def journal():
    JOURNAL.clear()
    return JOURNAL


@custom_op("ordered::double", tags=Tag.ordered)
def double(x: np.ndarray, label: str = "double") -> np.ndarray:
    JOURNAL.append(f"{label} {x.sum():g}")
    return 2 * x


double.register_fake(lambda x, label="double": x)
double.register_autograd(lambda ctx, g: (2 * g, None))


@custom_op("ordered::note", tags=Tag.ordered)
def note(x: np.ndarray, label: str = "note") -> None:
    JOURNAL.append(f"{label} {x.sum():g}")


def plain_double(x: jax.Array, label: str = "double") -> jax.Array:
    """The same by JAX alone."""

    def run(x: np.ndarray) -> np.ndarray:
        JOURNAL.append(f"{label} {x.sum():g}")
        return np.asarray(2 * x)

    @jax.custom_vjp
    def call(x: jax.Array) -> jax.Array:
        return io_callback(run, jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)

    call.defvjp(lambda x: (call(x), None), lambda _, g: (2 * g,))
    return call(x)


def loop(op, x):
    def body(x, _):
        return 0.5 * op(x, "in the loop") + 1.0, op(x, "unused")

    return jax.lax.scan(body, op(x, "first"), None, length=2)[0]


def in_while(op, x):
    return jax.lax.while_loop(lambda x: x[0] < 8, op, x)


PROGRAMS = {
    "equal calls": lambda op, x: op(x) + op(x),
    "an unused call": lambda op, x: (op(x), x + 1)[1],
    "a chain": lambda op, x: op(op(x), "second"),
    "scan": loop,
    "while": in_while,
    "a branch": lambda op, x: jax.lax.cond(x[0] > 0, op, lambda x: x, x),
    "a constant": lambda op, x: (op(jnp.ones(3), "constant"), x)[1],
    "unmapped in vmap": lambda op, x: jax.vmap(lambda one: op(x) * one)(x)[0],
}
WAYS = {
    "jit": lambda function: jax.jit(function)(X),
    "grad": lambda function: jax.grad(lambda x: function(x).sum())(X),
    "jit of grad": lambda function: jax.jit(jax.grad(lambda x: function(x).sum()))(X),
    "grad of jit": lambda function: jax.grad(lambda x: jax.jit(function)(x).sum())(X),
}


def run_in(way: str, function) -> tuple[np.ndarray, list[str]]:
    JOURNAL.clear()
    result = np.asarray(WAYS[way](function))
    jax.effects_barrier()
    return result, list(JOURNAL)


CASES = [
    (program, way) for program in PROGRAMS for way in WAYS if program != "while" or way == "jit"
]  # JAX has no reverse derivative of while_loop


@pytest.mark.parametrize(("program", "way"), CASES)
def test_calls_are_those_of_an_ordered_io_callback(program: str, way: str) -> None:
    run = PROGRAMS[program]
    found = run_in(way, lambda x: run(double, x))
    expected = run_in(way, lambda x: run(plain_double, x))
    np.testing.assert_allclose(found[0], expected[0])
    assert found[1] == expected[1]
    assert found[1]


def test_without_the_tag_an_unused_call_is_dropped() -> None:
    op = custom_op("ordered::plain", double._opoverload.record.kernels["default"])
    op.register_fake(lambda x, label="double": x)
    jax.jit(lambda x: (op(x), x)[1])(X).block_until_ready()
    assert JOURNAL == []


def test_a_call_without_results_is_kept_and_needs_no_fake_kernel() -> None:
    step = jax.jit(lambda x: (note(x), x)[1])
    for _ in range(2):
        step(X)
    jax.effects_barrier()
    assert JOURNAL == ["note 3"] * 2


def test_eager_calls_wait_for_the_effects_of_compiled_programs() -> None:
    @jax.jit
    def many(x):
        for place in range(30):
            note(x + place)
        return x

    many(X)
    note(X, "eager")
    assert [text.split()[0] for text in JOURNAL] == ["note"] * 30 + ["eager"]


def test_on_the_tape_the_kernel_runs_once_and_the_backward_not_at_all() -> None:
    leaf = oplib.tensor([1.0, 2.0], requires_grad=True)
    double(double(leaf), "second").sum().backward()
    assert JOURNAL == ["double 3", "second 6"]
    np.testing.assert_array_equal(leaf.grad.array, [4.0, 4.0])


@pytest.mark.parametrize("backward_inside", [True, False])
def test_under_oplib_jit_each_run_has_the_effects_of_the_eager_run(backward_inside: bool) -> None:
    captured = oplib.tensor([5.0])

    def step(leaf):
        note(captured, "captured")
        double(leaf, "unused")
        loss = double(leaf).sum()
        note(loss, "loss")
        if backward_inside:
            loss.backward()
        return loss

    runs = []
    for function in (step, compiled := oplib.jit(step), compiled):
        JOURNAL.clear()
        leaf = oplib.tensor([1.0, 2.0], requires_grad=True)
        loss = function(leaf)
        if not backward_inside:
            loss.backward()
        jax.effects_barrier()
        runs.append((list(JOURNAL), leaf.grad.array.tolist()))
    assert runs[0] == (["captured 5", "unused 3", "double 3", "loss 6"], [2.0, 2.0])
    assert runs[1:] == [runs[0]] * 2


def test_control_flow_over_tensors_runs_the_effects_of_its_rounds() -> None:
    start = oplib.tensor([1.0, 2.0], requires_grad=True)
    result, _ = oplib.scan(lambda x, _: (double(x), None), start, None, length=3)
    result.sum().backward()
    jax.effects_barrier()
    assert JOURNAL == ["double 3", "double 6", "double 12"]
    np.testing.assert_array_equal(start.grad.array, [8.0, 8.0])


@pytest.mark.parametrize("op", [double, note])
@pytest.mark.parametrize("world", ["arrays", "compiled", "Tensors"])
def test_vmap_is_refused(op, world: str) -> None:
    run = {"arrays": jax.vmap(op), "compiled": jax.jit(jax.vmap(op)), "Tensors": oplib.vmap(op)}[world]
    given = oplib.tensor([1.0, 2.0]) if world == "Tensors" else X
    with pytest.raises(
        MissingRuleError, match=r"ordered::\w+: vmap of an op with Tag\.ordered.*register_vmap"
    ):
        run(given)
    assert JOURNAL == []


def test_a_batching_rule_makes_one_call_of_a_batch() -> None:
    @custom_op("ordered::batched", tags=Tag.ordered)
    def batched(x: np.ndarray) -> np.ndarray:
        JOURNAL.append(f"batched {x.shape}")
        return x

    batched.register_fake(lambda x: x)
    batched.register_vmap(lambda info, in_dims, x: (batched(x), in_dims[0]))
    jax.block_until_ready(jax.jit(jax.vmap(batched))(jnp.ones((4, 2))))
    jax.effects_barrier()
    assert JOURNAL == ["batched (4, 2)"]


def test_jax_checkpoint_refuses_the_effects_as_of_an_io_callback() -> None:
    for op in (double, plain_double):
        with pytest.raises(NotImplementedError, match=r"Effects not supported in .*`checkpoint`"):
            jax.grad(jax.checkpoint(lambda x, op=op: op(x).sum()))(X)


@pytest.mark.devices(2)
def test_a_program_for_several_devices_is_refused() -> None:
    mesh = jax.make_mesh((2,), ("rows",))
    spread = jax.device_put(X, NamedSharding(mesh, PartitionSpec("rows")))
    with pytest.raises(TracingError, match=r"ordered::note: an op with Tag\.ordered cannot run.*Got 2, "):
        jax.jit(lambda x: (note(x), x)[1])(spread)
    in_parts = jax.shard_map(
        double, mesh=mesh, in_specs=PartitionSpec("rows"), out_specs=PartitionSpec("rows")
    )
    with pytest.raises(TracingError, match=r"ordered::double: an op with Tag\.ordered cannot run.*Got 2, "):
        jax.jit(in_parts)(spread)
    with pytest.raises(RegistrationValueError, match=r"register_sharding\(ordered::note\): the op has Tag"):
        note.register_sharding("... ->")


def test_only_host_kernels_may_have_the_tag() -> None:
    def on_arrays(x: jax.Array) -> jax.Array:
        return x

    def on_tensors(x: oplib.Tensor) -> oplib.Tensor:
        return x

    for fn, annotation in ((on_arrays, "jax.Array"), (on_tensors, "Tensor")):
        with pytest.raises(RegistrationValueError, match=rf"Tag\.ordered is for .* annotated {annotation}"):
            custom_op("ordered::refused", fn, tags=Tag.ordered)
    define("ordered::late", "(Tensor x) -> Tensor", tags=Tag.ordered)
    with pytest.raises(RegistrationError, match=r"ordered::late: Tag\.ordered is for.*io_callback"):
        impl("ordered::late", "default", on_arrays)


def test_an_array_kernel_orders_its_own_io_callback() -> None:
    @custom_op("ordered::inside", autograd="derive")
    def inside(x: jax.Array) -> jax.Array:
        io_callback(lambda x: JOURNAL.append(f"inside {x.sum():g}"), None, x, ordered=True)
        return x

    jax.jit(lambda x: (inside(x), inside(x + 1), x)[2])(X)
    jax.effects_barrier()
    assert JOURNAL == ["inside 3", "inside 5"]


@pytest.mark.parametrize("op", [double, note])
def test_opcheck_passes_a_sound_op(op) -> None:
    results = opcheck(op, (X,), raise_exception=False)
    assert {str(result).partition(":")[0] for result in results.values()} == {"SUCCESS", "SKIPPED"}
    assert str(results["test_vmap"]).startswith("SKIPPED: there is no batching rule")


def test_opcheck_compares_only_shapes_of_results_that_depend_on_the_effects() -> None:
    count = iter(range(1000))

    def counted(x: np.ndarray) -> np.ndarray:
        return np.float32(next(count)) * x

    tagged = custom_op("ordered::counted", counted, tags=Tag.ordered)
    untagged = custom_op("ordered::uncounted", counted)
    for op in (tagged, untagged):
        op.register_fake(lambda x: x)
    name = "test_aot_dispatch_dynamic"
    assert opcheck(tagged, (X,), test_utils=name) == {name: "SUCCESS"}
    with pytest.raises(oplib.errors.OpCheckError, match="the outputs are different"):
        opcheck(untagged, (X,), test_utils=name)


def test_the_error_of_an_earlier_program_is_not_raised_by_an_eager_call():
    mesh, spread = jax.make_mesh((4,), ("devices",)), PartitionSpec("devices")
    x = jax.device_put(jnp.ones((4, 2)), NamedSharding(mesh, spread))

    def fail(x: np.ndarray) -> np.ndarray:
        raise ValueError("an earlier program")

    def run(function):
        def call(x):
            return jax.pure_callback(function, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

        jax.block_until_ready(jax.jit(jax.shard_map(call, mesh=mesh, in_specs=spread, out_specs=spread))(x))

    with pytest.raises(jax.errors.JaxRuntimeError, match="an earlier program"):
        run(fail)
    with pytest.raises(jax.errors.JaxRuntimeError):
        jax.effects_barrier()  # it raises this error again, until the devices have run another program
    note(X, "after")
    assert JOURNAL == ["after 3"]
    run(np.copy)
    jax.effects_barrier()
