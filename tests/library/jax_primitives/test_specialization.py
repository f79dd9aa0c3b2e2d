"""The bounded cache of specializations, and the contents of a specialization."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.core import Tracer

import oplib
from oplib.autograd import forward_ad
from oplib.library import OpOverload, custom_op, ops
from oplib.library.arguments.layout import make_layout
from oplib.library.jax_primitives.primitive import find_carrier
from oplib.library.jax_primitives.specialization import CAPACITY, Specialization, SpecializationCache
from tests.threads import run_in_threads

X = jnp.array([1.0, 2.0])


@pytest.fixture
def overload() -> OpOverload:
    @custom_op("special::scale")
    def scale(x: jax.Array, k: float = 2.0) -> jax.Array:
        return x * k

    scale.register_autograd(
        lambda ctx, grad: (grad * ctx.saved_tensors[0], None),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(jnp.cos(inputs[0]) * 0 + inputs[1]),
    )
    return ops.special.scale.default


def specialize(overload: OpOverload, k: float) -> Specialization:
    layout, _ = make_layout(overload._schema, [X, k], frozenset(), op=overload.name())
    return Specialization(overload, layout, find_carrier(overload), ())


def test_it_runs_the_op_for_its_static_arguments(overload: OpOverload) -> None:
    assert specialize(overload, 3.0).run_one(X).tolist() == [3.0, 6.0]
    structure, outputs = specialize(overload, 4.0).run(X)
    assert structure.arrange(outputs).tolist() == [4.0, 8.0]


def test_a_recorder_gives_plan_outputs_and_intermediates(overload: OpOverload) -> None:
    special = specialize(overload, 3.0)
    plan, output, extra = special.recorders[(True,)](X)
    assert output.tolist() == [3.0, 6.0]
    assert (plan.sources, plan.wanted) == ((2,), (True,))
    assert extra.tolist() == [3.0, 3.0]
    assert special.recorders[(True,)] is special.recorders[(True,)]
    assert special.recorders[(True,)](X + 1)[0] is plan


def test_a_plan_after_a_plain_run_equals_that_of_a_recorder(overload: OpOverload) -> None:
    special = specialize(overload, 3.0)
    structure, outputs = special.run(X)
    plan, output, extra = special.plan_after(structure, (True,), (X,), outputs)
    assert output is outputs[0]
    assert (plan.sources, extra.tolist()) == ((2,), [3.0, 3.0])


def test_calls_are_equal_by_op_layout_and_version(overload: OpOverload) -> None:
    three, again, four = (specialize(overload, k).call for k in (3.0, 3.0, 4.0))
    assert three == again
    assert hash(three) == hash(again)
    assert three != four
    with pytest.warns(UserWarning, match="a second op of this name"):
        custom_op("special::scale", lambda x, k=2.0: x, schema="(Tensor x, float k=2.) -> Tensor")
    assert specialize(overload, 3.0).call.version > three.version
    assert specialize(overload, 3.0).call != three


class Entry:
    """Stands for a specialization."""

    last_use = 0


def test_the_least_recently_used_one_goes_first() -> None:
    cache: Any = SpecializationCache()
    entries = [Entry() for _ in range(CAPACITY)]
    for key, entry in enumerate(entries):
        cache.put(key, entry)
    assert cache.get(0) is entries[0]
    cache.put("new", Entry())
    assert len(cache) == CAPACITY
    assert cache.get(0) is entries[0]
    assert cache.get(1) is None


def test_the_first_of_two_that_are_entered_for_one_key_stays() -> None:
    cache: Any = SpecializationCache()
    first, second = Entry(), Entry()
    assert cache.put("key", first) is first
    assert cache.put("key", second) is first
    assert cache.get("key") is first


def test_threads_may_read_and_write_it_at_once() -> None:
    cache: Any = SpecializationCache()

    def run(place: int) -> None:
        for count in range(2000):
            key = (100 * place + count * 7) % (2 * CAPACITY)
            if cache.get(key) is None:
                cache.put(key, Entry())

    run_in_threads(run)
    assert len(cache) == CAPACITY


def test_a_jvp_rule_gets_values_while_nothing_is_compiled() -> None:
    got_tracers: list[bool] = []

    @custom_op("special::twice")
    def twice(x: jax.Array) -> jax.Array:
        return 2 * x

    @twice.register_jvp
    def _(primals: Any, tangents: Any) -> Any:
        got_tracers.append(isinstance(primals[0], Tracer))
        return 2 * primals[0], 2 * tangents[0]

    def push() -> list[bool]:
        got_tracers.clear()
        with forward_ad.dual_level():
            twice(forward_ad.make_dual(oplib.ones(3), oplib.ones(3)))
        return list(got_tracers)

    assert all(push())
    oplib.config.compile_kernels = False
    try:
        assert push() == push() == [False]
    finally:
        oplib.config.compile_kernels = True
    assert push() == []


@pytest.mark.parametrize("is_local", [False, True], ids=["named", "local"])
def test_a_setup_is_run_again_for_other_settings(is_local: bool) -> None:
    def kernel(x: jax.Array) -> jax.Array:
        return 2 * x

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.width = jnp.asarray(1.0).dtype.itemsize
        ctx.casts = oplib.is_autocast_enabled("cpu")

    op = custom_op(kernel) if is_local else custom_op("special::width", kernel)
    op.register_autograd(lambda ctx, grad: grad * ctx.width + 100 * ctx.casts, setup_context=setup)
    for is_wide, casts in ((False, False), (True, False), (False, True), (False, False)):
        with jax.enable_x64(is_wide), oplib.autocast("cpu", enabled=casts):
            slope = jax.grad(lambda x: op(x).sum())(jnp.ones(2, jnp.float32))
        assert slope.tolist() == [(8 if is_wide else 4) + 100 * casts] * 2


@pytest.mark.parametrize(
    ("kernel", "is_kept"),
    [
        (lambda x: jnp.sin(x @ x), True),
        (lambda x: jax.jit(lambda x: jnp.sin(x @ x))(x), True),
        (lambda x: jnp.sin(x * x), False),
    ],
    ids=["a product", "a product inside a call", "elements only"],
)
def test_a_derived_backward_reads_what_a_costly_kernel_has_computed(kernel: Any, is_kept: bool) -> None:
    kernel.__annotations__ = {"x": jax.Array, "return": jax.Array}
    op = custom_op("special::derived", kernel, autograd="derive")
    x = oplib.ones(2, 2, requires_grad=True)
    y = op(x)
    assert len(y.grad_fn.saved_tensors) == 1 + is_kept
    expected = jax.grad(lambda x: kernel(x).sum())(x.detach().array)
    assert oplib.autograd.grad(y.sum(), x)[0].tolist() == expected.tolist()
