"""Arguments of a compiled function: what is an operand, what is compiled in, and what is refused."""

import dataclasses
import functools
import math
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentTypeError, ConcreteValueError, TracingError
from oplib.nn import functional as F

pytestmark = pytest.mark.spec("J.1")


def test_tensors_arrays_and_floats_are_operands_and_other_leaves_are_compiled_in():
    @oplib.jit
    def scaled(x, array, numbers, factor, *, times=2, name="a"):
        return x * oplib.Tensor.from_array(array) * oplib.Tensor.from_array(numbers) * factor * times

    x = oplib.ones(2)
    first = scaled(x, jnp.ones(2), np.full(2, 3, np.float32), 0.5)
    assert first.tolist() == [3, 3]
    assert scaled(x + 1, 2 * jnp.ones(2), np.ones(2, np.float32), 0.25, name="a").tolist() == [2, 2]
    assert scaled.compilations == 1
    assert scaled(x, jnp.ones(2), np.ones(2, np.float32), 1.0, times=3).tolist() == [3, 3]
    assert scaled.compilations == 2


def test_a_default_and_the_same_value_given_share_a_program():
    scaled = oplib.jit(lambda x, factor=0.5: x * factor)
    assert scaled(oplib.ones(1)).item() == scaled(oplib.ones(1), 0.5).item() == 0.5
    assert scaled.compilations == 1


def test_a_static_float_is_compiled_in_by_its_bits():
    seen = []

    @oplib.jit(static_argnames="factor")
    def scaled(x, factor):
        seen.append(factor)
        return x * factor

    values = [0.5, 0.25, 0.5, 0.0, -0.0]
    results = [scaled(oplib.ones(1), factor).item() for factor in values]
    assert results == values
    assert [float(one) for one in seen] == [0.5, 0.25, 0.0, -0.0]
    assert scaled.compilations == 4


def test_containers_are_operands_leaf_by_leaf():
    @dataclasses.dataclass
    class Batch:
        x: oplib.Tensor
        weight: float

    @oplib.jit
    def loss(batch, more):
        return batch.x.sum() * batch.weight + more["a"][0]

    result = loss(Batch(oplib.ones(3), 2.0), {"a": [oplib.tensor(1.0)]})
    assert result.item() == 7
    assert loss(Batch(oplib.ones(3), 3.0), {"a": [oplib.tensor(1.0)]}).item() == 10
    assert loss.compilations == 1


def test_classes_that_are_registered_with_jax_are_containers():
    class Scaled:
        def __init__(self, x, factor, tag):
            self.x, self.factor, self.tag = x, factor, tag

    jax.tree_util.register_pytree_node(
        Scaled, lambda one: ((one.x, one.factor), one.tag), lambda tag, held: Scaled(*held, tag)
    )

    @oplib.jit
    def double(given):
        return Scaled(given.x * given.factor, given.factor, given.tag * 2)

    for factor in (2.0, 3.0):
        found = double(Scaled(oplib.ones(2), factor, "a"))
        assert (found.x.tolist(), float(found.factor), found.tag) == ([factor] * 2, factor, "aa")
    assert double.compilations == 1
    double(Scaled(oplib.ones(2), 1.0, "b"))
    assert double.compilations == 2


def test_changing_a_container_that_is_an_argument_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"changes a container that is an argument"):
        oplib.jit(lambda values: values.append(1))([oplib.ones(1)])


def test_an_argument_without_a_hash_is_named():
    keep = oplib.jit(lambda x, tag: x)
    with pytest.raises(ArgumentTypeError, match=r"argument 'tag' cannot be .* bytearray, which has no hash"):
        keep(oplib.ones(1), bytearray(b"tag"))


def test_what_differs_is_named_by_its_parameter_and_keys():
    @oplib.jit
    def step(x, batch, *more, **options):
        return x

    x, y = oplib.ones(2), oplib.ones(1)
    step(x, {"y": [y, 1]}, 2, name=3)
    for args, options, expected in (
        ((oplib.ones(3), {"y": [y, 1]}, 2), {"name": 3}, "argument 'x' is f32[3], and was f32[2]"),
        ((x, {"y": [y, 0]}, 2), {"name": 3}, "argument 'batch'['y'][1] is 0, and was 1"),
        ((x, {"y": [y, 1]}, 4), {"name": 3}, "argument 2 is 4, and was 2"),
        ((x, {"y": [y, 1]}, 2), {"name": 4}, "argument 'name' is 4, and was 3"),
    ):
        assert step.explain(*args, **options) == f"step: {expected}"


def test_where_the_value_of_a_float_is_needed_the_error_names_the_argument():
    with pytest.raises(TracingError, match="Floats are operands, here argument 'rate'; static_argnames"):
        oplib.jit(lambda x, rate, count: x * math.sqrt(rate))(oplib.ones(2), 0.5, 3)
    with pytest.raises(TracingError, match=r"out of the function\.$"):
        oplib.jit(lambda x, count: float(x.sum()))(oplib.ones(2), jnp.ones(2))


def test_a_float_that_is_a_count_or_an_index_is_named():
    @oplib.jit
    def double(x, n):
        for _ in range(n):
            x = x * 2
        return x

    x = oplib.ones(2)
    told = r"double: an integer is needed .*test_arguments\.py:\d+: `for _ in range\(n\):`\. "
    cure = "Here argument 'n' is a float, hence an operand .* Pass an int"
    with pytest.raises(TracingError, match=told + cure):
        double(x, 3.0)
    assert double(x, 3).tolist() == [8.0, 8.0]
    with pytest.raises(TracingError, match="Here argument 'n', argument 'm' are floats, hence operands"):
        oplib.jit(lambda n, m: [1, 2][n])(0.0, 1.0)
    with pytest.raises(TypeError, match="Only integer scalar arrays"):  # no float is to blame
        oplib.jit(lambda x, n: [1, 2][x])(jnp.ones(()), 1)


@pytest.mark.parametrize(
    "ask",
    [lambda x: x.sum().item(), lambda x: float(x.sum()), lambda x: bool(x.sum() > 0), lambda x: x.tolist()],
)
def test_where_a_value_is_needed_the_error_says_the_cure_once(ask):
    with pytest.raises(ConcreteValueError, match=r"Got (f32|bool)\[\d?\]\. Choose by oplib\.where") as caught:
        oplib.jit(ask)(oplib.ones(2))
    assert str(caught.value).count("return the value") == 1
    with pytest.raises(ConcreteValueError, match=r"Choose by oplib\.where or oplib\.cond, return the value"):
        jax.jit(lambda x: ask(oplib.Tensor.from_array(x)))(jnp.ones(2))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, p=0.5: F.dropout(x, p),
        lambda x, p=0.5: F.alpha_dropout(x, p),
        lambda x, p=0.5: F.scaled_dot_product_attention(x, x, x, dropout_p=p),
        lambda x, p=0.5: F.leaky_relu(x, p),
    ],
)
def test_where_an_option_has_to_be_a_number_the_error_names_static_argnames(call):
    x = oplib.ones(2, 2)
    with pytest.raises(ArgumentTypeError, match=r"Its value is traced, so it is not known;.*static_argnames"):
        oplib.jit(call)(x)
    oplib.jit(call, static_argnames="p")(x)
    with pytest.raises(ArgumentTypeError) as caught:
        call(x, "a")
    assert "static_argnames" not in str(caught.value)


def test_something_that_is_no_function_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"jit: expected a function. Got 3"):
        oplib.jit(3)


def test_static_names_must_be_names_of_arguments():
    with pytest.raises(ArgumentTypeError, match=r"static_argnames names no argument.*'q'.*are x"):
        oplib.jit(lambda x: x, static_argnames=("q",))


def test_a_generator_is_an_operand():
    mine, same = oplib.Generator().manual_seed(5), oplib.Generator().manual_seed(5)
    draw = oplib.jit(lambda generator: oplib.rand(3, generator=generator))
    for _ in range(3):
        assert draw(mine).tolist() == oplib.rand(3, generator=same).tolist()
    assert draw.compilations == 1
    assert mine.get_state()[2] == same.get_state()[2]


def test_a_float_argument_may_be_any_number_of_an_op():
    weight = oplib.ones(2)

    def step(x, rate):
        weight.add_(x, alpha=-rate)
        weight.addcmul_(x, x, value=rate)
        weight.lerp_(x, rate)
        return oplib.where(x > rate, x, rate) + oplib.clamp(x, max=rate) + x**rate

    compiled = oplib.jit(step)
    for rate in (0.1, 0.25):
        weight.fill_(1.0)
        result, value = compiled(oplib.ones(2), rate).tolist(), weight.tolist()
        weight.fill_(1.0)
        assert result == pytest.approx(step(oplib.ones(2), rate).tolist())
        assert value == pytest.approx(weight.tolist())
    assert compiled.compilations == 1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: oplib.jit(max), r"the arguments of <built-in function max> are not known"),
        (
            lambda: oplib.jit(len, static_argnames=3),
            r"'static_argnames' holds something that is no name. Got 3",
        ),
        (
            lambda: oplib.jit(lambda x: x)(1, 2),
            r"<lambda>: too many positional arguments. Call it as .*\(x\)",
        ),
        (
            lambda: oplib.jit(lambda x, *, y=0: x)(1, 2),
            r"<lambda>: too many positional arguments. Call it as .*\(x, \*, y=0\)",
        ),
        (
            lambda: oplib.jit(len, fullgraph=True),
            r"jit: cannot use .* keyword argument 'fullgraph'\. Correct the call: help\(\) of the function",
        ),
        (lambda: oplib.jit(lambda x: x)(y=1), r"<lambda>: missing a required argument: 'x'"),
        (
            lambda: oplib.jit(sum)(iter([1])),
            r"sum: argument 'iterable' is an iterator, which only the trace would read",
        ),
    ],
)
def test_bad_input(call, text):
    with pytest.raises(ArgumentTypeError, match=text):
        call()


def test_a_function_that_would_run_after_the_call_is_refused():
    def halves(x):
        yield x / 2

    with pytest.raises(TracingError, match="returns a generator, whose code would run after the call"):
        oplib.jit(halves)(oplib.ones(2))


@pytest.mark.spec("J.4")
def test_an_attribute_that_was_deleted_gives_the_users_error():
    holder = SimpleNamespace(weight=oplib.ones(2))
    step = oplib.jit(lambda x: x * holder.weight)
    step(oplib.ones(2))
    del holder.weight
    with pytest.raises(AttributeError, match="has no attribute 'weight'"):
        step(oplib.ones(2))
    holder.weight = oplib.full((2,), 3.0)
    assert step(oplib.ones(2)).tolist() == [3, 3]
    assert step.compilations == 1


def test_a_default_without_a_hash_is_refused_only_where_another_is_given():
    class Options:
        __hash__ = None

        def __init__(self, factor):
            self.factor = factor

    default = Options(2)

    def scale(x, options=default):
        return x * options.factor

    compiled = oplib.jit(scale)
    assert compiled(oplib.ones(2)).tolist() == compiled(oplib.ones(2), default).tolist() == [2, 2]
    assert compiled.compilations == 1
    with pytest.raises(ArgumentTypeError, match=r"Options.*has no hash"):
        compiled(oplib.ones(2), Options(3))


# Ops ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [
        F.leaky_relu,
        F.elu,
        oplib.ops.oplib.leaky_relu,
        oplib.ops.oplib.leaky_relu.default,
        functools.partial(F.leaky_relu, negative_slope=0.2),
        functools.partial(oplib.dropout, training=False),
    ],
)
def test_an_op_with_a_float_option_is_compiled(op):
    x = oplib.tensor([-1.0, 2.0])
    assert oplib.jit(op)(x).tolist() == op(x).tolist()


def test_a_float_option_of_an_op_is_compiled_in_and_an_operand_is_not():
    x = oplib.tensor([-1.0, 2.0])
    leaky_relu, power = oplib.jit(F.leaky_relu), oplib.jit(oplib.pow)
    for number in (0.5, 0.25):
        assert leaky_relu(x, number).tolist() == [-number, 2.0]
        assert power(x.abs(), number).tolist() == pytest.approx([1.0, 2.0**number])
    assert (leaky_relu.compilations, power.compilations) == (2, 1)


@pytest.mark.parametrize(("operand", "compilations"), [([], 4), (["factor"], 2), (["factor", "shift"], 1)])
def test_the_schema_of_a_custom_op_says_which_floats_are_operands(forget_ops, operand, compilations):
    def scale(x: jax.Array, factor: float, shift: float = 1.0) -> jax.Array:
        return x * factor + shift

    for op in (oplib.custom_op("jit_tests::scale", scale, operand=operand), oplib.ops.jit_tests.scale):
        compiled = oplib.jit(op)
        found = [compiled(oplib.ones(1), a, b).item() for a in (2.0, 3.0) for b in (0.5, 0.25)]
        assert found == [2.5, 2.25, 3.5, 3.25]
        assert compiled.compilations == compilations


class Layer:
    """An object whose Tensor is found when the object is an argument."""

    def __init__(self, rate):
        self.rate = rate
        self.weight = oplib.ones(2, requires_grad=True)

    def run(self, x):
        return self.weight * x * self.rate

    @property
    @oplib.jit
    def double(self):
        return self.weight * 2


@pytest.mark.spec("J.2", "J.4")
def test_tensors_of_an_argument_that_is_a_model_are_operands():
    first, second = Layer(1.0), Layer(3.0)
    step = oplib.jit(lambda model, x: model.run(x).sum())
    for model, value in ((first, 2), (second, 6), (first, 2), (second, 6)):
        model.weight.grad = None
        result = step(model, oplib.ones(2))
        result.backward()
        assert result.item() == value
        assert model.weight.grad.tolist() == [model.rate] * 2
    assert step.compilations == 2
    first.rate = 5.0
    assert step(first, oplib.ones(2)).item() == 10
    first.weight = oplib.zeros(2, requires_grad=True)
    assert step(first, oplib.ones(2)).item() == 0
    assert step.compilations == 3


@pytest.mark.spec("J.2")
def test_tensors_of_an_argument_that_is_a_function_are_operands():
    layer, shift = Layer(2.0), oplib.ones(2)
    step = oplib.jit(lambda run, x: run(x))

    def move(x):
        return x + shift

    assert step(move, oplib.ones(2)).tolist() == [2, 2]
    shift.add_(1)
    assert step(move, oplib.ones(2)).tolist() == [3, 3]
    assert step(layer.run, oplib.ones(2)).tolist() == [2, 2]
    assert step(oplib.sin, oplib.zeros(2)).tolist() == [0, 0]


@pytest.mark.spec("J.2")
def test_a_property_may_be_compiled():
    layer = Layer(1.0)
    assert layer.double.tolist() == [2, 2]
    with oplib.no_grad():
        layer.weight.add_(1)
    assert layer.double.tolist() == [4, 4]


def test_slices_of_a_dataset_share_a_program():
    data, weight = oplib.randn(20, 3), oplib.ones(3, requires_grad=True)
    step = oplib.jit(lambda x: (x * weight).sum())
    batches = [
        *(data[n : n + 4] for n in range(0, 20, 4)),
        *data.split(4),
        *data.view(5, 4, 3),
        data[:4].clone(),
    ]
    for batch in batches:
        assert oplib.allclose(step(batch), (batch * weight).sum())
    assert step.compilations == 1
    assert "serves this call" in step.explain(data[1:5])
    assert "was f32[4,3]" in step.explain(data[18:]) or "no longer f32[4,3]" in step.explain(data[18:])


@pytest.mark.spec("J.2", "J.7")
def test_a_view_that_is_written_returned_or_shared_stays_a_view():
    def run(wrap):
        data, buffer, found = oplib.zeros(6, 2), oplib.ones(4, 2), []

        def add_to_buffer(x):
            buffer.add_(1)
            return x * 1

        write, give, show = wrap(lambda x: x.add_(1)), wrap(lambda x: x), wrap(lambda x: x[0])
        shared = wrap(add_to_buffer)
        write(oplib.zeros(2, 2))
        for rows in (data[0:2], data[2:4], data[2:4]):
            write(rows)
            found.append(give(rows) is rows)
            show(rows).mul_(3)
        views = data[0:2], buffer[0:2], data[4:6], buffer[2:4], buffer[0:2]
        found += [shared(rows).tolist() for rows in views]
        same = wrap(lambda x, y: x * y if x is y else x - y)
        rows = data[0:2]
        found += [same(rows, rows).tolist(), same(rows, data[2:4]).tolist(), same(rows, data[0:2]).tolist()]
        return [*found, data.tolist(), data._version, buffer.tolist()]

    assert run(oplib.jit) == run(lambda function: function)


def test_a_view_whose_items_do_not_lie_side_by_side_stays_a_view():
    data = oplib.randn(4, 4)
    strides = oplib.jit(lambda x: x.is_contiguous())
    assert not strides(data.t())
    assert strides(data[1:3])
    with pytest.raises(oplib.errors.ArgumentError, match="view"):
        oplib.jit(lambda x: x.view(-1))(data[:, 1:3])


def _of_partial():
    held = functools.partial(lambda x, rate: x * rate, rate=2.0)
    return held, lambda: held.keywords.update(rate=3.0)


def _of_defaults():
    def scale(x, rate=2):
        return x * rate

    return scale, lambda: setattr(scale, "__defaults__", (3,))


def _of_keyword_defaults():
    def scale(x, *, rate=2):
        return x * rate

    return scale, lambda: scale.__kwdefaults__.update(rate=3)


def _of_callable_object():
    class Model:
        def __call__(self, x, rate=2):
            return x * rate

    return Model(), lambda: setattr(Model, "__call__", lambda self, x, rate=3: x * rate)


TWO = oplib.full((1,), 2.0)


def _of_tensor():
    def scale(x, rate=TWO):
        return x * rate

    return scale, lambda: setattr(scale, "__defaults__", (oplib.full((1,), 3.0),))


def _of_method():
    class Model:
        def scale(self, x, rate=2):
            return x * rate

    return Model().scale, lambda: setattr(Model.scale, "__defaults__", (3,))


@pytest.mark.spec("J.25")
@pytest.mark.parametrize(
    "make",
    [_of_partial, _of_defaults, _of_keyword_defaults, _of_callable_object, _of_tensor, _of_method],
)
def test_defaults_that_changed_since_the_function_was_compiled_count(make):
    function, change = make()
    step, x = oplib.jit(function), oplib.ones(1)
    assert [step(x).tolist(), step(x).tolist()] == [[2.0], [2.0]]
    change()
    assert step(x).tolist() == function(x).tolist() == [3.0]
