"""Kernels annotated jax.Array: traced once, run as one jit, with everything a trace may not do refused."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import (
    ArgumentError,
    AutogradError,
    CompilationWarning,
    DtypeError,
    ResultError,
    TracingError,
)
from oplib.library import Tag, custom_op, define, impl, ops
from oplib.modes import modes

pytestmark = pytest.mark.usefixtures("forget_ops")
X = np.linspace(-1.0, 1.0, 6, dtype=np.float32).reshape(2, 3)


def test_a_kernel_is_traced_once_per_signature() -> None:
    traces: list[tuple[int, ...]] = []

    @custom_op("compiled::double")
    def double(x: jax.Array) -> jax.Array:
        traces.append(x.shape)
        return x * 2

    for _ in range(3):
        double(jnp.ones(2))
        double(oplib.tensor([1.0, 2.0]))
        double(jnp.ones(3))
    assert sorted(traces) == [(2,), (3,)]


def test_a_formula_is_traced_once_per_signature_and_mask() -> None:
    traces: list[object] = []

    @custom_op("compiled::product")
    def product(x: jax.Array, y: jax.Array) -> jax.Array:
        return x * y

    @product.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    def backward(ctx, grad):
        traces.append(ctx.needs_input_grad)
        x, y = ctx.saved_tensors
        return grad * y, grad * x

    x, y = oplib.tensor(X, requires_grad=True), oplib.tensor(X)
    for _ in range(3):
        product(x, y).sum().backward()
        product(x, x).sum().backward()
    assert sorted(traces) == [(True, False), (True, True)]
    np.testing.assert_allclose(x.grad.numpy(), 3 * X + 3 * 2 * X, rtol=1e-6)


def test_arrays_set_as_attributes_of_ctx_are_inputs_of_the_formula_and_the_rest_is_static() -> None:
    traces: list[object] = []

    @custom_op("compiled::scaled")
    def scaled(x: jax.Array, scale: float = 2.0) -> jax.Array:
        return x * x * scale

    def setup(ctx, inputs, output):
        ctx.x, ctx.scale = inputs
        ctx.pair = (inputs[0] * 2, "label")

    @scaled.register_autograd(setup_context=setup)
    def backward(ctx, grad):
        assert isinstance(ctx.x, jax.core.Tracer)
        assert ctx.pair[1] == "label"
        traces.append(ctx.scale)
        return grad * ctx.pair[0] * ctx.scale, None

    for value in (1.0, 2.0, 3.0):
        x = oplib.tensor([value], requires_grad=True)
        scaled(x, 3.0).sum().backward()
        assert x.grad.item() == pytest.approx(6.0 * value)
    assert traces == [3.0]


def test_ctx_is_read_only_in_a_compiled_formula() -> None:
    @custom_op("compiled::writer")
    def writer(x: jax.Array) -> jax.Array:
        return x + 1

    @writer.register_autograd
    def backward(ctx, grad):
        ctx.seen = True
        return grad

    x = oplib.tensor([1.0], requires_grad=True)
    with pytest.raises(AutogradError, match=r"compiled::writer: ctx\.seen was set in the backward formula"):
        writer(x).sum().backward()


def test_what_no_setup_has_set_is_an_attribute_error_that_names_the_cure() -> None:
    @custom_op("compiled::forgetful")
    def forgetful(x: jax.Array, scale: float) -> jax.Array:
        return x * scale

    def save(ctx, inputs, output):
        ctx.factor = inputs[1]

    forgetful.register_autograd(lambda ctx, grad: (grad * ctx.scale, None), setup_context=save)
    x = oplib.tensor([1.0], requires_grad=True)
    with pytest.raises(
        AttributeError,
        match=r"compiled::forgetful: ctx\.scale is read .* has set \['factor'\]\. Set it in a setup_context",
    ):
        forgetful(x, 2.0).sum().backward()
    forgetful.register_autograd(
        lambda ctx, grad: (grad * getattr(ctx, "scale", ctx.factor), None), setup_context=save
    )
    forgetful(x, 2.0).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_a_kernel_that_reads_a_value_names_the_argument_and_the_three_cures() -> None:
    @custom_op("compiled::branch")
    def branch(x: jax.Array, flag: jax.Array) -> jax.Array:
        return x if flag else -x

    with pytest.raises(TracingError, match="concrete value of argument 'flag'") as raised:
        branch(jnp.ones(2), jnp.array(True))
    for cure in ("static", "jax.lax", "compile=False"):
        assert cure in str(raised.value)


def test_compile_false_runs_the_kernel_as_plain_python_on_every_call() -> None:
    calls: list[bool] = []

    @custom_op("compiled::plain", compile=False)
    def plain(x: jax.Array, flag: jax.Array) -> jax.Array:
        calls.append(bool(flag))
        return x * 2 if flag else -x

    plain.register_autograd(
        lambda ctx, grad: (grad * (2 if ctx.flag else -1), None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "flag", bool(inputs[1])),
    )
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    for flag in (True, False, True):
        plain(x, jnp.array(flag)).sum().backward()
    assert calls == [True, False, True]
    assert x.grad.tolist() == [3.0, 3.0]


def test_compile_kernels_false_runs_every_kernel_and_rule_as_plain_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values: list[float] = []

    @custom_op("compiled::debugged")
    def debugged(x: jax.Array) -> jax.Array:
        values.append(float(x[0]))
        return jnp.sin(x)

    @debugged.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
    def backward(ctx, grad):
        values.append(float(grad[0]))
        return grad * jnp.cos(ctx.saved_tensors[0])

    x = oplib.tensor([0.5], requires_grad=True)
    monkeypatch.setattr(oplib.config, "compile_kernels", False)
    debugged(x).sum().backward()
    assert values == [0.5, 1.0]
    assert x.grad.item() == pytest.approx(float(np.cos(0.5)))
    np.testing.assert_allclose(debugged(jnp.array([0.5])), np.sin(0.5), rtol=1e-6)


def test_reading_a_tensor_from_outside_while_tracing_raises() -> None:
    outside = oplib.tensor([2.0])

    @custom_op("compiled::freezer")
    def freezer(x: jax.Array) -> jax.Array:
        return x * outside.array

    with pytest.raises(TracingError, match=r"compiled::freezer.*reads a Tensor from outside"):
        freezer(jnp.ones(1))


def test_using_an_op_on_a_tensor_from_outside_while_tracing_raises() -> None:
    outside = oplib.tensor([2.0])

    @custom_op("compiled::op_freezer")
    def op_freezer(x: jax.Array) -> jax.Array:
        return x * (outside * 2).array

    with pytest.raises(TracingError, match="from outside"):
        op_freezer(jnp.ones(1))


def test_advancing_a_generator_from_outside_while_tracing_raises() -> None:
    generator = oplib.Generator()

    @custom_op("compiled::noise")
    def noise(x: jax.Array) -> jax.Array:
        return x + oplib.rand(1, generator=generator).array

    with pytest.raises(TracingError):
        noise(jnp.ones(1))


def test_a_tensor_made_inside_a_kernel_may_be_used_there() -> None:
    @custom_op("compiled::inside")
    def inside(x: jax.Array) -> jax.Array:
        two = oplib.Tensor.from_array(x) * 2
        return two.array

    assert inside(jnp.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("part", ["kernel", "setup_context"])
def test_a_tracer_closed_over_is_refused(part: str) -> None:
    def run(scale: jax.Array) -> jax.Array:
        closed_over = scale * 2

        @custom_op("compiled::closure")
        def closure(x: jax.Array) -> jax.Array:
            return x * closed_over if part == "kernel" else x

        closure.register_autograd(
            lambda ctx, grad: grad * ctx.scale,
            setup_context=lambda ctx, inputs, output: setattr(ctx, "scale", closed_over),
        )
        return jax.grad(lambda x: closure(x).sum())(jnp.ones(3)).sum()

    with pytest.raises(TracingError, match=f"compiled::closure: the {part} closes over a traced value"):
        jax.jit(run)(2.0)


def test_grad_mode_of_the_first_call_is_not_frozen_into_a_kernel() -> None:
    modes_seen: list[bool] = []

    @custom_op("compiled::mode")
    def mode(x: jax.Array) -> jax.Array:
        modes_seen.append(oplib.is_grad_enabled())
        return x

    mode(jnp.ones(1))
    with oplib.no_grad():
        mode(jnp.ones(2))
    assert modes_seen == [False, False]


def test_a_tensor_that_an_array_kernel_returns_counts_as_its_array() -> None:
    @custom_op("compiled::boxed")
    def boxed(x: jax.Array) -> jax.Array:
        return oplib.Tensor.from_array(x) * 2

    assert boxed(jnp.ones(2)).tolist() == [2.0, 2.0]
    assert boxed(oplib.tensor([1.0])).tolist() == [2.0]


def test_an_op_may_call_itself() -> None:
    @custom_op("compiled::power")
    def power(x: jax.Array, n: int) -> jax.Array:
        return x if n == 0 else x * ops.compiled.power(x, n - 1)

    power.register_autograd("derive")
    x = oplib.tensor(2.0, requires_grad=True)
    power(x, 3).backward()
    assert x.grad.item() == 4 * 2.0**3
    assert jax.grad(power)(2.0, 3) == 4 * 2.0**3


def test_an_exception_in_a_kernel_or_rule_leaves_no_mode_behind() -> None:
    @custom_op("compiled::failing")
    def failing(x: jax.Array, where: str) -> jax.Array:
        if where == "kernel":
            raise KeyError(where)
        return x * 1

    @failing.register_autograd(setup_context=lambda ctx, inputs, output: setattr(ctx, "at", inputs[1]))
    def backward(ctx, grad):
        raise KeyError(ctx.at)

    for where in ("kernel", "formula"):
        x = oplib.tensor([1.0], requires_grad=True)
        with pytest.raises(KeyError, match=where):
            failing(x, where).sum().backward()
        assert modes.tracing is None  # a fixture checks the other modes


def test_results_are_never_weakly_typed() -> None:
    @custom_op("compiled::weak")
    def weak(x: jax.Array) -> jax.Array:
        return jnp.asarray(2.0) * jnp.asarray(3.0)

    assert not weak(jnp.ones(2)).weak_type
    assert not jax.jit(weak)(jnp.ones(2)).weak_type


# Static arguments and operands ------------------------------------------------------------------------------


def test_static_arguments_are_told_apart_by_type_and_bits() -> None:
    @custom_op("compiled::sign_of")
    def sign_of(x: jax.Array, value: float) -> jax.Array:
        return x * np.copysign(1.0, value)

    @custom_op("compiled::kind_of")
    def kind_of(x: jax.Array, value: int | float | bool) -> jax.Array:  # noqa: PYI041  told apart
        return x * {bool: 1.0, int: 2.0, float: 3.0}[type(value)]

    x = jnp.ones(())
    for _ in range(2):
        assert [float(sign_of(x, value)) for value in (0.0, -0.0)] == [1.0, -1.0]
        assert [float(kind_of(x, value)) for value in (True, 1, 1.0)] == [1.0, 2.0, 3.0]
        assert [float(jax.jit(kind_of, static_argnums=1)(x, value)) for value in (True, 1, 1.0)] == [
            1.0,
            2.0,
            3.0,
        ]


def test_a_nan_argument_does_not_compile_again_and_again() -> None:
    traces: list[float] = []

    @custom_op("compiled::fill")
    def fill(x: jax.Array, value: float) -> jax.Array:
        traces.append(value)
        return jnp.full_like(x, value)

    for _ in range(4):
        assert np.isnan(fill(jnp.ones(1), float("nan"))).all()
    assert len(traces) == 1


def test_an_operand_that_changes_at_every_call_compiles_nothing_new() -> None:
    traces: list[object] = []

    @custom_op("compiled::step", operand=("lr",))
    def step(x: jax.Array, *, lr: float) -> jax.Array:
        traces.append(lr)
        return x - lr

    for count in range(20):  # warnings are errors here
        assert float(step(jnp.ones(()), lr=count / 7)) == pytest.approx(1 - count / 7)
        assert step(oplib.tensor(1.0), lr=count / 7).item() == pytest.approx(1 - count / 7)
    assert len(traces) == 1


def test_an_operand_is_a_zero_dimensional_array_in_setup_context() -> None:
    seen: list[object] = []

    @custom_op("compiled::operand_setup", operand=("scale",))
    def operand_setup(x: jax.Array, scale: float) -> jax.Array:
        return x * scale

    def setup(ctx, inputs, output):
        seen.append((isinstance(inputs[1], jax.Array), inputs[1].shape))
        ctx.scale = inputs[1]

    operand_setup.register_autograd(lambda ctx, grad: (grad * ctx.scale, None), setup_context=setup)
    x = oplib.tensor([1.0], requires_grad=True)
    for scale in (2.0, 3.0):
        operand_setup(x, scale).sum().backward()
    assert x.grad.item() == 5.0
    assert seen == [(True, ())]


def test_a_static_argument_warns_once_at_its_eighth_value() -> None:
    @custom_op("compiled::warned")
    def warned(x: jax.Array, scale: float) -> jax.Array:
        return x * scale

    x = jnp.ones(1)
    for count in range(7):
        warned(x, float(count))
    with pytest.warns(
        CompilationWarning, match=r"compiled::warned: static argument 'scale' has taken 8 values.*operand"
    ):
        warned(x, 7.0)
    for count in range(8, 20):  # warnings are errors here, so a second one would fail
        warned(x, float(count))


def test_the_specializations_of_an_op_are_bounded() -> None:
    @custom_op("compiled::bounded")
    def bounded(x: jax.Array, name: str) -> jax.Array:
        return x

    x = jnp.ones(1)
    for count in range(300):
        bounded(x, f"v{count}")
    find = ops.compiled.bounded.default.call.__globals__["__find0"]
    assert len(find.__self__) <= 256


def test_a_static_argument_of_the_wrong_type_is_refused_after_a_right_one() -> None:
    @custom_op("compiled::strict")
    def strict(x: jax.Array, count: int = 1) -> jax.Array:
        return x * count

    assert strict(jnp.ones(()), 2) == 2.0
    with pytest.raises(ArgumentError, match="argument 'count'"):
        strict(jnp.ones(()), "2")
    with pytest.raises(ArgumentError, match="argument 'count'"):
        strict(jnp.ones(()), 2.5)


@pytest.mark.parametrize("value", [[2], np.array([1, 2]), jnp.ones(3), {}], ids=str)
def test_a_static_argument_that_cannot_be_hashed_is_explained_by_its_schema(value: Any) -> None:
    @custom_op("compiled::unhashable")
    def unhashable(x: jax.Array, count: int = 1, scale: float = 1.0) -> jax.Array:
        return x * count * scale

    for _ in range(2):  # the second time by the short cut
        assert unhashable(jnp.ones(()), 2, 0.5) == 1.0
        with pytest.raises(ArgumentError, match="argument 'count'"):
            unhashable(jnp.ones(()), value)
        with pytest.raises(ArgumentError, match="argument 'scale'"):
            unhashable(jnp.ones(()), 1, value)


def test_a_traced_static_argument_is_refused_with_the_reason() -> None:
    @custom_op("compiled::traced_static")
    def traced_static(x: jax.Array, scale: float) -> jax.Array:
        return x * scale

    with pytest.raises(ArgumentError, match=r"argument 'scale'.*Its value is traced"):
        jax.jit(lambda scale: traced_static(jnp.ones(()), scale))(2.0)


def test_an_array_of_one_element_passes_for_a_static_number() -> None:
    @custom_op("compiled::element")
    def element(x: jax.Array, count: int) -> jax.Array:
        return x * count

    assert [float(element(jnp.ones(()), count)) for count in (jnp.array(2), np.array(2), 2)] == [2.0] * 3


def test_a_list_argument_is_told_apart_by_the_types_of_its_members() -> None:
    @custom_op("compiled::lists")
    def lists(x: jax.Array, values: list[float]) -> jax.Array:
        return x * sum(values)

    assert lists(jnp.ones(()), [1.0, 2.0]) == 3.0
    assert lists(jnp.ones(()), (1, 2)) == 3.0
    with pytest.raises(ArgumentError):
        lists(jnp.ones(()), ["a"])


def test_a_kernel_that_changes_its_list_argument_changes_no_later_trace() -> None:
    @custom_op("compiled::popping")
    def popping(x: jax.Array, dims: list[int]) -> jax.Array:
        count = len(dims)
        dims.clear()
        return x * count

    assert [popping(jnp.ones(size), [1, 2])[0] for size in (1, 2)] == [2.0, 2.0]


# Written arguments ------------------------------------------------------------------------------------------


def test_an_array_kernel_returns_the_new_values_of_written_arguments_first() -> None:
    @custom_op("compiled::momentum", mutates_args=("params", "state"), operand=("lr",))
    def momentum(
        params: list[jax.Array], state: jax.Array | None, grads: list[jax.Array], *, lr: float
    ) -> tuple[list[jax.Array], jax.Array | None, jax.Array]:
        norm = sum(jnp.sum(grad**2) for grad in grads)
        return (
            [p - lr * g for p, g in zip(params, grads, strict=True)],
            None if state is None else state + 1,
            norm,
        )

    params = [oplib.tensor([1.0]), oplib.tensor([2.0, 3.0])]
    grads = [oplib.tensor([1.0]), oplib.tensor([1.0, 1.0])]
    count = oplib.tensor(0.0)
    norm = momentum(params, count, grads, lr=0.5)
    assert [p.tolist() for p in params] == [[0.5], [1.5, 2.5]]
    assert (count.item(), norm.item()) == (1.0, 3.0)
    assert [p._version for p in (*params, count)] == [1, 1, 1]
    assert momentum(params, None, grads, lr=0.5).item() == 3.0
    assert [p.tolist() for p in params] == [[0.0], [1.0, 2.0]]


def test_functional_gives_the_new_values_of_arrays() -> None:
    @custom_op("compiled::bump", mutates_args=("x",))
    def bump(x: jax.Array) -> jax.Array:
        return x + 1

    assert bump.functional(jnp.zeros(2)).tolist() == [1.0, 1.0]
    assert ops.compiled.bump.default.functional(jnp.zeros(2)).tolist() == [1.0, 1.0]
    with pytest.raises(ArgumentError, match=r"argument 'x' is written, but arrays cannot be.*functional"):
        bump(jnp.zeros(2))


def test_writing_a_leaf_that_requires_grad_is_refused_and_changes_nothing() -> None:
    @custom_op("compiled::bump2", mutates_args=("x",))
    def bump2(x: jax.Array) -> jax.Array:
        return x + 1

    x = oplib.tensor([1.0], requires_grad=True)
    with pytest.raises(AutogradError, match="leaf Variable that requires grad"):
        bump2(x)
    assert (x.tolist(), x._version) == ([1.0], 0)
    with oplib.no_grad():
        bump2(x)
    assert (x.tolist(), x._version) == ([2.0], 1)


def test_a_new_value_of_another_shape_is_refused_and_changes_nothing() -> None:
    @custom_op("compiled::grow", mutates_args=("x", "y"))
    def grow(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return x + 1, jnp.concatenate([y, y])

    x, y = oplib.tensor([1.0]), oplib.tensor([2.0])
    with pytest.raises(
        AutogradError,
        match=r"compiled::grow: the new value.*does not fit the tensor. Got f32\[2\] for f32\[1\]",
    ):
        grow(x, y)
    assert (x.tolist(), y.tolist(), x._version) == ([1.0], [2.0], 0)


def test_nothing_is_donated_unless_the_op_says_so() -> None:
    @custom_op("compiled::keep", mutates_args=("x",))
    def keep(x: jax.Array) -> jax.Array:
        return x + 1

    @custom_op("compiled::take", mutates_args=("x",), donates=("x",))
    def take(x: jax.Array) -> jax.Array:
        return x + 1

    for op, deleted in ((keep, False), (take, True)):
        x = oplib.tensor([1.0, 2.0])
        before = x.array
        op(x)
        assert before.is_deleted() is deleted
        assert x.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda xs, s: ([xs[0]], s), r"argument 'xs' does not fit. Got \[f32\[1\]\], expected a list of 2"),
        (lambda xs, s: (xs, 1.0), r"argument 's' does not fit. Got 1.0, expected an array"),
        (lambda xs, s: (xs[0], s), r"argument 'xs' does not fit. Got f32\[1\], expected a list of 2"),
    ],
    ids=["too short", "a number", "no list"],
)
def test_a_new_value_of_another_structure_is_refused(answer: Any, text: str) -> None:
    @custom_op("compiled::restructure", mutates_args=("xs", "s"))
    def restructure(xs: list[jax.Array], s: jax.Array) -> tuple[list[jax.Array], jax.Array]:
        return answer(xs, s)

    xs = [oplib.tensor([1.0]), oplib.tensor([2.0])]
    with pytest.raises(ResultError, match=text):
        restructure(xs, oplib.tensor(0.0))
    assert [x._version for x in xs] == [0, 0]


# The eager, array and mixed worlds --------------------------------------------------------------------------


def test_a_call_with_any_tensor_gives_tensors_and_arrays_in_it_are_constants() -> None:
    @custom_op("compiled::dot")
    def dot(x: jax.Array, y: jax.Array) -> jax.Array:
        return (x * y).sum()

    dot.register_autograd("derive")
    x = oplib.tensor([1.0, 2.0], requires_grad=True)
    result = dot(x, jnp.array([3.0, 4.0]))
    assert isinstance(result, oplib.Tensor)
    result.backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_a_number_in_a_tensors_place_is_refused_among_tensors_and_taken_among_arrays() -> None:
    @custom_op("compiled::plus")
    def plus(x: jax.Array, y: jax.Array) -> jax.Array:
        return x + y

    with pytest.raises(
        ArgumentError, match=r"Expected a value of type 'Tensor' for argument 'y'.*found type 'float'"
    ):
        plus(oplib.tensor([1.0]), 2.0)
    assert plus(jnp.array([1.0]), 2.0).tolist() == [3.0]
    assert isinstance(plus(1.0, np.float32(2.0)), jax.Array)


def test_an_op_without_tensor_arguments_gives_tensors_and_its_arrays_form_gives_arrays() -> None:
    @custom_op("compiled::ramp")
    def ramp(length: int) -> jax.Array:
        return jnp.arange(length, dtype=jnp.float32)

    assert isinstance(ramp(3), oplib.Tensor)
    array = ops.compiled.ramp.default.arrays(3)
    assert isinstance(array, jax.Array)
    assert array.tolist() == ramp(3).tolist() == [0.0, 1.0, 2.0]


def test_a_kernel_registered_later_is_seen_at_once_by_eager_calls_and_new_traces() -> None:
    @custom_op("compiled::late")
    def late(x: jax.Array) -> jax.Array:
        return x * 2

    assert late(jnp.ones(())) == 2.0
    assert jax.jit(lambda x: late(x))(jnp.ones(())) == 2.0
    late.register_kernel("cpu", lambda x: x * 5)
    assert late(jnp.ones(())) == 5.0
    assert late(oplib.tensor(1.0)).item() == 5.0
    assert jax.jit(lambda x: late(x))(jnp.ones(())) == 5.0


def test_a_missing_platform_says_which_kernels_there_are() -> None:
    define("compiled::tpu_only", "(Tensor x) -> Tensor")
    impl("compiled::tpu_only", "tpu", lambda x: x)
    with pytest.raises(NotImplementedError, match=r"Could not run.*'cpu'.*Registered: tpu"):
        ops.compiled.tpu_only(oplib.tensor([1.0]))


def test_an_inplace_or_out_op_of_an_array_kernel_returns_the_written_objects() -> None:
    @custom_op("compiled::twice_", mutates_args=("x",), tags=Tag.inplace)
    def twice_(x: jax.Array) -> jax.Array:
        return x * 2

    @custom_op("compiled::add_out", mutates_args=("out",), tags=Tag.out)
    def add_out(x: jax.Array, *, out: jax.Array) -> jax.Array:
        return x + 1

    x, out = oplib.tensor([1.0]), oplib.tensor([0.0])
    assert twice_(x) is x
    assert add_out(x, out=out) is out
    assert (x.tolist(), out.tolist()) == ([2.0], [3.0])


def test_a_one_tuple_is_a_return_of_its_own() -> None:
    @custom_op("compiled::single", schema="(Tensor x) -> ((Tensor))")
    def single(x: jax.Array) -> tuple[jax.Array]:
        return (x * 2,)

    single.register_autograd("derive")
    x = oplib.tensor([1.0], requires_grad=True)
    (result,) = single(x)
    result.sum().backward()
    assert x.grad.item() == 2.0
    assert single(jnp.ones(1))[0].tolist() == [2.0]


@pytest.mark.parametrize("keyword", [False, True], ids=["positional", "by keyword"])
def test_an_optional_tensor_is_told_apart_when_it_is_there_and_when_it_is_not(keyword: bool) -> None:
    @custom_op("compiled::affine")
    def affine(x: jax.Array, w: jax.Array, b: jax.Array | None = None, *, scale: float = 1.0) -> jax.Array:
        return scale * x * w if b is None else scale * x * w + b

    affine.register_autograd("derive")
    call = (
        (lambda x, w, b: affine(x, w, b=b, scale=3.0))
        if keyword
        else (lambda x, w, b: affine(x, w, b, scale=3.0))
    )
    for _ in range(3):  # the first call goes the complete path, the others the short one
        for bias in (None, 5.0):
            w = oplib.tensor([2.0], requires_grad=True)
            b = None if bias is None else oplib.tensor([bias], requires_grad=True)
            result = call(oplib.tensor([7.0]), w, b)
            assert result.item() == 42.0 + (bias or 0.0)
            result.sum().backward()
            assert w.grad.item() == 21.0
            assert b is None or b.grad.item() == 1.0
            arrays = call(jnp.array([7.0]), jnp.array([2.0]), None if bias is None else jnp.array([bias]))
            assert arrays.tolist() == [42.0 + (bias or 0.0)]


def test_the_complete_path_and_the_short_cut_run_the_same_executable(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @custom_op("compiled::once")
    def once(x: jax.Array, w: jax.Array) -> jax.Array:
        return x * w

    x = oplib.tensor([1.0, 2.0])
    with jax.log_compiles(), caplog.at_level("WARNING"):
        for _ in range(3):
            once(x, x)
    compiled = [record for record in caplog.records if record.getMessage().startswith("Compiling")]
    assert len(compiled) == 1


def test_numpy_arrays_among_tensors_keep_to_the_rules_for_dtypes() -> None:
    @custom_op("compiled::plus64")
    def plus64(x: jax.Array, y: jax.Array) -> jax.Array:
        return x + y

    with pytest.raises(DtypeError, match="int32"):
        plus64(oplib.ones(2), np.arange(2) + 2**40)
    assert plus64(oplib.ones(2), np.ones(2, np.float32)).tolist() == [2.0, 2.0]


def test_a_tensor_that_requires_grad_is_not_taken_for_a_number() -> None:
    @custom_op("compiled::by_number")
    def by_number(x: jax.Array, scale: float) -> jax.Array:
        return x * scale

    scale = oplib.tensor(2.0, requires_grad=True)
    with pytest.raises(ArgumentError, match=r"argument 'scale'.*would lose its gradient"):
        by_number(oplib.ones(2), scale)
    assert by_number(oplib.ones(2), scale.detach()).tolist() == [2.0, 2.0]


def test_the_name_of_an_op_comes_first() -> None:
    with pytest.raises(TypeError, match=r"custom_op: the name comes first. Got function"):

        @custom_op
        def nameless(x: jax.Array) -> jax.Array:
            return x
