"""Arguments as jax.custom_vjp takes them: pytrees, other libraries' arrays, static objects, ``*args``."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import ArgumentError, AutogradError, RegistrationValueError, SchemaError
from oplib.library import CustomOpDef, custom_op, opcheck
from oplib.library.schema import parse_schema


class Affine(NamedTuple):
    weight: jax.Array
    bias: jax.Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Scaled:
    weight: jax.Array
    times: int = dataclasses.field(default=2, metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(eq=False)
class Layer:
    times: float


class Boxed:
    """An array of another library."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __jax_array__(self) -> Any:
        return self.value


@dataclasses.dataclass(frozen=True)
class Options:
    power: float
    flip: bool = False


class Mode(enum.Enum):
    UP = 1
    DOWN = 2


ROWS = jnp.arange(6.0).reshape(2, 3) / 7
PARAMS = Affine(jnp.linspace(-1.0, 1.0, 6).reshape(3, 2), jnp.array([0.5, -0.5]))


def apply(params: Affine, x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ params.weight + params.bias)


@pytest.fixture
def affine() -> CustomOpDef:
    op = custom_op("tree::affine", apply)

    @op.register_autograd(setup_context=save_affine)
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        inside = g * (1 - y * y)
        return Affine(x.T @ inside, inside.sum(0)), inside @ ctx.params.weight.T

    return op


def save_affine(ctx, inputs, output):
    ctx.params = inputs[0]
    ctx.save_for_backward(inputs[1], output)


def loss_of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: (function(*args) ** 2).sum()


def assert_trees_close(got: Any, expected: Any) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), got, expected)


class TestPytrees:
    def test_gradients_have_the_structure_of_the_tree(self, affine: CustomOpDef) -> None:
        for by in (0, 1, (0, 1)):
            got = jax.grad(loss_of(affine), by)(PARAMS, ROWS)
            assert_trees_close(got, jax.grad(loss_of(apply), by)(PARAMS, ROWS))

    @pytest.mark.parametrize(
        "transform",
        [
            lambda f: jax.jit(jax.grad(f)),
            lambda f: lambda p, x: jax.vmap(jax.grad(f), (None, 0))(p, x[:, None]),
            lambda f: lambda p, x: jax.jvp(f, (p, x), (p, x)),
            lambda f: lambda p, x: jax.grad(lambda q: sum(map(jnp.sum, jax.grad(f)(q, x))))(p),
            lambda f: jax.grad(jax.checkpoint(f)),
            lambda f: lambda p, x: jax.vmap(f, (Affine(0, None), None))(Affine(p.weight[None], p.bias), x),
        ],
    )
    def test_transformations_agree_with_jax(self, affine: CustomOpDef, transform: Any) -> None:
        got = transform(loss_of(affine))(PARAMS, ROWS)
        assert_trees_close(got, transform(loss_of(apply))(PARAMS, ROWS))

    def test_leaves_are_tensors_on_the_tape(self, affine: CustomOpDef) -> None:
        params = Affine(*(oplib.Tensor.from_array(leaf, requires_grad=True) for leaf in PARAMS))
        affine(params, ROWS).square().sum().backward()
        expected = jax.grad(loss_of(apply))(PARAMS, ROWS)
        for leaf, gradient in zip(params, expected, strict=True):
            np.testing.assert_allclose(leaf.grad.array, gradient, rtol=1e-5, atol=1e-6)

    def test_one_leaf_may_require_grad_alone(self, affine: CustomOpDef) -> None:
        params = Affine(oplib.Tensor.from_array(PARAMS.weight), oplib.tensor([0.5, -0.5], requires_grad=True))
        affine(params, oplib.Tensor.from_array(ROWS)).square().sum().backward()
        assert params.weight.grad is None
        np.testing.assert_allclose(
            params.bias.grad.array, jax.grad(loss_of(apply))(PARAMS, ROWS).bias, rtol=1e-5
        )

    def test_needs_input_grad_is_a_tree_of_flags(self) -> None:
        seen: list[Any] = []

        @custom_op("tree::flags")
        def flags(params: dict[str, Any], x: jax.Array) -> jax.Array:
            return x * params["w"]

        flags.register_autograd(
            lambda ctx, g: seen.append(ctx.needs_input_grad) or ({"w": g, "name": None}, g)
        )
        jax.grad(lambda w: flags({"w": w, "name": "n"}, jnp.ones(2)).sum())(jnp.ones(2))
        assert seen == [({"w": True, "name": False}, False)]

    def test_opcheck_checks_each_leaf(self, affine: CustomOpDef) -> None:
        assert set(opcheck(affine, (PARAMS, ROWS)).values()) == {"SUCCESS"}

    def test_numbers_and_functions_in_a_tree_are_static_and_traced_numbers_are_not(self) -> None:
        seen: list[Any] = []

        @custom_op("tree::mixed", autograd="derive")
        def mixed(tree: dict[str, Any], x: jax.Array) -> jax.Array:
            seen.append(tree["k"])
            return tree["act"](x * tree["k"] * tree["w"]).sum()

        tree = {"act": jnp.tanh, "k": 2.0, "w": jnp.ones(2)}
        mixed(tree, ROWS[0, :2])
        assert seen == [2.0]

        def loss(k: Any) -> Any:
            return mixed({**tree, "k": k}, jnp.ones(2))

        np.testing.assert_allclose(jax.grad(loss)(0.5), 2 * (1 - np.tanh(0.5) ** 2), rtol=1e-6)

    def test_a_gradient_for_a_static_leaf_is_dropped(self) -> None:
        @custom_op("tree::dropped")
        def dropped(tree: dict[str, Any]) -> jax.Array:
            return tree["w"] * tree["k"]

        dropped.register_autograd(lambda ctx, g: {"w": 3.0 * g, "k": g.sum()})
        assert jax.grad(lambda w: dropped({"w": w, "k": 3.0}).sum())(jnp.ones(2)).tolist() == [3.0, 3.0]

    def test_a_registered_class_and_its_static_fields(self) -> None:
        @custom_op("tree::module")
        def module(m: Scaled) -> jax.Array:
            return m.weight * m.times

        @module.register_autograd(
            setup_context=lambda ctx, inputs, output: setattr(ctx, "n", inputs[0].times)
        )
        def backward(ctx, g):
            return Scaled(g * ctx.n, ctx.n)

        gradient = jax.grad(lambda m: module(m).sum())(Scaled(jnp.ones(2), 5))
        assert_trees_close(gradient, Scaled(jnp.full(2, 5.0), 5))

    def test_another_structure_is_another_compilation(self) -> None:
        @custom_op("tree::total", autograd="derive")
        def total(xs: Any) -> jax.Array:
            return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(xs)) + jnp.zeros(())

        one = jnp.ones(2)
        assert total({"a": one}) == 2
        assert total((one, [one])) == 4
        assert total({"a": one, "b": {"c": one}}) == 4
        assert_trees_close(jax.grad(total)((one, [one])), (one, [one]))

    def test_a_host_kernel_gets_a_tree_of_numpy_arrays(self) -> None:
        seen: list[Any] = []

        @custom_op("tree::host")
        def host(params: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
            seen.append(type(params["s"]))
            return x * params["s"]

        host.register_fake(lambda params, x: x)
        for call in (host, jax.jit(host)):
            assert call({"s": jnp.full(2, 3.0)}, jnp.ones(2)).tolist() == [3.0, 3.0]
        assert set(seen) == {np.ndarray}

    def test_calls_with_the_same_structure_compile_once(self) -> None:
        traced: list[int] = []

        @custom_op("tree::once")
        def once(params: dict[str, jax.Array]) -> jax.Array:
            traced.append(1)
            return params["a"] + params["b"]

        for number in range(5):
            assert once({"a": jnp.float32(number), "b": jnp.float32(1)}) == number + 1
        assert traced == [1]

    def test_a_gradient_of_another_structure_is_refused(self) -> None:
        op = custom_op("tree::wrong", apply)
        op.register_autograd(lambda ctx, g: ({"weight": g}, None))
        with pytest.raises(
            AutogradError, match=r"same structure as the inputs. Argument 'params' is the tree"
        ):
            jax.grad(loss_of(op))(PARAMS, ROWS)

    def test_a_gradient_of_a_leaf_of_another_shape_is_refused(self) -> None:
        op = custom_op("tree::shape", apply)
        op.register_autograd(lambda ctx, g: (Affine(jnp.ones((5, 5)), None), None))
        with pytest.raises(AutogradError, match="got f32\\[5,5\\]"):
            jax.grad(loss_of(op))(PARAMS, ROWS)

    def test_a_leaf_that_is_neither_array_nor_hashable_is_refused(self) -> None:
        @custom_op("tree::unhashable")
        def unhashable(tree: Any, x: jax.Array) -> jax.Array:
            return x

        with pytest.raises(ArgumentError, match=r"'tree' is static but cannot be hashed. Got bytearray"):
            unhashable({"x": jnp.ones(1), "y": bytearray(2)}, jnp.ones(2))

    def test_a_kernel_on_tensors_takes_no_tree(self) -> None:
        with pytest.raises(
            RegistrationValueError, match="trees and variadic arguments are for kernels on arrays"
        ):
            custom_op("tree::eager", lambda t: t["x"], schema="(Tree t) -> Tensor")

    def test_an_array_of_a_tree_by_keyword_only_is_refused(self) -> None:
        @custom_op("tree::named")
        def named(x: jax.Array, *, tree: dict[str, Any]) -> jax.Array:
            return x * tree["k"]

        assert named(jnp.ones(1), tree={"k": 2.0}) == 2
        with pytest.raises(ArgumentError, match="argument 'tree' is static but cannot be hashed"):
            named(jnp.ones(1), tree={"k": jnp.ones(1)})

    def test_a_number_in_an_object_is_read_at_each_call_and_refused_by_keyword_only(self) -> None:
        def scale(x: jax.Array, layer: Layer) -> jax.Array:
            return x * layer.times

        def scale_named(x: jax.Array, *, layer: Layer) -> jax.Array:
            return x * layer.times

        op, layer = custom_op("tree::layer", scale), Layer(2.0)
        for x in (oplib.ones(1), jnp.ones(1)):
            for layer.times in (2.0, 3.0):
                assert op(x, layer).tolist() == [layer.times]
        with pytest.raises(ArgumentError, match="argument 'layer' is a pytree, and is given by keyword only"):
            custom_op("tree::layer_by_name", scale_named)(jnp.ones(1), layer=layer)


class TestArraysOfOtherLibraries:
    def test_each_tensor_slot_takes_jax_array(self, affine: CustomOpDef) -> None:
        @custom_op("other::total", autograd="derive", operand=("scale",))
        def total(
            x: jax.Array, xs: list[jax.Array], y: jax.Array | None = None, scale: float = 1.0
        ) -> jax.Array:
            return (x + sum(xs) + (0 if y is None else y)) * scale

        one = jnp.ones(2)
        expected = total(one, [one, one], one, jnp.float32(2))
        assert total(Boxed(one), [Boxed(one), one], Boxed(one), Boxed(jnp.float32(2))).tolist() == [8.0, 8.0]
        assert expected.tolist() == [8.0, 8.0]
        boxed: Any = Boxed
        assert affine(Affine(boxed(PARAMS.weight), PARAMS.bias), Boxed(ROWS)).shape == (2, 2)

    def test_a_tracer_inside_is_differentiated(self, affine: CustomOpDef) -> None:
        got = jax.grad(lambda x: (affine(PARAMS, Boxed(x)) ** 2).sum())(ROWS)
        assert_trees_close(got, jax.grad(loss_of(apply), 1)(PARAMS, ROWS))

    def test_beside_a_tensor_it_is_a_constant(self) -> None:
        @custom_op("other::times", autograd="derive")
        def times(x: jax.Array, y: jax.Array) -> jax.Array:
            return x * y

        x = oplib.ones(2, requires_grad=True)
        times(x, Boxed(jnp.full(2, 3.0))).sum().backward()
        assert x.grad.tolist() == [3.0, 3.0]


class TestStaticObjects:
    @pytest.mark.parametrize(
        ("hint", "value", "type_"),
        [
            (Options, Options(2.0), "Tree"),
            (tuple[tuple[int, int], ...], ((1, 2), (3, 4)), "(int, int)[]"),
            (tuple[tuple[int, ...], ...], ((1,), (2, 3)), "Any"),
            (dict[str, int], {"a": 1}, "Any"),
            (frozenset[str], frozenset({"a"}), "Any"),
            (bytes, b"a", "Any"),
            (type[int], int, "Any"),
            (Mode, Mode.UP, "Enum"),
            (Any, "text", "Tree"),
        ],
    )
    def test_any_hashable_is_static(self, hint: Any, value: Any, type_: str) -> None:
        seen: list[Any] = []

        def kernel(x, option):
            seen.append(option)
            return x * 2

        kernel.__annotations__ = {"x": jax.Array, "option": hint, "return": jax.Array}
        op = custom_op("static::any", kernel, autograd="derive")
        assert str(op._schema.arguments[1].type) == type_
        for _ in range(2):
            assert jax.grad(lambda x: op(x, value).sum())(jnp.ones(2)).tolist() == [2.0, 2.0]
            assert op(oplib.ones(2), value).tolist() == [2.0, 2.0]
        assert all(type(one) in (type(value), list) for one in seen)
        assert len(seen) <= 2

    def test_dataclasses_that_are_equal_by_coincidence_compile_apart(self) -> None:
        @custom_op("static::options")
        def power(x: jax.Array, options: Options) -> jax.Array:
            return jnp.asarray([isinstance(options.power, bool), isinstance(options.power, float)])

        x = jnp.ones(1)
        assert power(x, Options(1.0)).tolist() == [False, True]
        assert power(x, Options(True)).tolist() == [True, False]
        assert power(x, Options(1)).tolist() == [False, False]

    def test_a_function_as_default(self) -> None:
        @custom_op("static::act", autograd="derive")
        def act(x: jax.Array, function: Callable[..., Any] = jnp.tanh) -> jax.Array:
            return function(x)

        assert 'Any function="tanh"' in str(act._schema)
        assert act(jnp.zeros(1)).tolist() == [0.0]
        assert act(jnp.zeros(1), jnp.cos).tolist() == [1.0]

    @pytest.mark.parametrize("given", ["bfloat16", jnp.bfloat16, jnp.dtype("bfloat16")])
    def test_a_dtype_may_be_named(self, given: Any) -> None:
        @custom_op("static::cast")
        def cast(x: jax.Array, dtype: np.dtype) -> jax.Array:
            return x.astype(dtype)

        assert cast(jnp.ones(1), given).dtype == "bfloat16"

    def test_a_wrong_name_of_a_dtype_is_refused(self) -> None:
        @custom_op("static::cast2")
        def cast(x: jax.Array, dtype: np.dtype) -> jax.Array:
            return x.astype(dtype)

        with pytest.raises(ArgumentError, match=r"argument 'dtype' .*'flot32'.* No dtype has this name"):
            cast(jnp.ones(1), "flot32")


class TestKindsOfParameters:
    @pytest.fixture
    def join(self) -> CustomOpDef:
        @custom_op("kinds::join")
        def join(first: jax.Array, /, *rest: jax.Array, scale: float = 1.0) -> jax.Array:
            return jnp.concatenate([first, *rest]) * scale

        def save(ctx, inputs, keyword_only_inputs, output):
            ctx.ends = tuple(np.cumsum([len(one) for one in inputs])[:-1].tolist())
            ctx.scale = keyword_only_inputs["scale"]

        @join.register_autograd(setup_context=save)
        def backward(ctx, g):
            return tuple(jnp.split(g * ctx.scale, ctx.ends))

        return join

    def test_the_schema_shows_them_and_parses_back(self, join: CustomOpDef) -> None:
        text = "kinds::join(Tensor first, Tensor[] *rest, *, float scale=1.) -> Tensor"
        assert str(join._schema) == text
        assert parse_schema(text) == join._schema

    @pytest.mark.parametrize("count", [1, 2, 4])
    def test_the_formula_gets_and_gives_one_value_per_tensor(self, join: CustomOpDef, count: int) -> None:
        parts = [jnp.arange(1.0, 1.0 + size) for size in range(1, count + 1)]
        got = jax.grad(lambda *xs: (join(*xs, scale=3.0) ** 2).sum(), range(count))(*parts)
        assert_trees_close(got, tuple(18 * part for part in parts))

    def test_on_the_tape(self, join: CustomOpDef) -> None:
        x, y = oplib.ones(2, requires_grad=True), oplib.ones(1, requires_grad=True)
        join(x, y, x.detach(), scale=2.0).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
        assert y.grad.tolist() == [2.0]

    def test_forward_mode_vmap_and_opcheck(self, join: CustomOpDef) -> None:
        a, b = jnp.ones(1), jnp.ones(2)
        assert jax.jvp(join, (a, b), (a, b))[1].tolist() == [1.0, 1.0, 1.0]
        assert jax.vmap(join, (None, 0))(a, b[None]).shape == (1, 3)
        assert set(opcheck(join, (a, b)).values()) == {"SUCCESS"}

    def test_a_jvp_rule_and_a_batching_rule_get_them_one_by_one(self) -> None:
        @custom_op("kinds::add")
        def add(*xs: jax.Array) -> jax.Array:
            return jnp.asarray(sum(xs))

        add.register_jvp(lambda primals, tangents: (sum(primals), sum(tangents)))
        add.register_vmap(lambda info, in_dims, *xs: (sum(xs), in_dims[0]))
        ones = jnp.ones(2)
        assert jax.jvp(add, (ones, ones), (ones, ones))[1].tolist() == [2.0, 2.0]
        assert jax.vmap(add)(ones, ones).tolist() == [2.0, 2.0]
        assert jax.grad(lambda x: add(x, x, ones).sum())(ones).tolist() == [2.0, 2.0]

    def test_a_wrong_number_of_gradients_is_refused(self, join: CustomOpDef) -> None:
        join.register_autograd(lambda ctx, g: (g[:1],))
        with pytest.raises(AutogradError, match="gradients"):
            jax.grad(lambda x, y: join(x, y).sum(), (0, 1))(jnp.ones(1), jnp.ones(1))

    def test_variadic_keywords_and_numbers_are_refused(self) -> None:
        def named(x: jax.Array, **more: jax.Array) -> jax.Array:
            return x

        def numbers(x: jax.Array, *sizes: int) -> jax.Array:
            return x

        with pytest.raises(ValueError, match="We do not support varkwargs"):
            custom_op("kinds::named", named)
        with pytest.raises(ValueError, match=r"Parameter \*sizes has unsupported type int. Only tensors"):
            custom_op("kinds::numbers", numbers)

    @pytest.mark.parametrize(
        "text", ["f(Tensor[] *xs, Tensor y) -> ()", "f(Tensor *x) -> ()", "f(*, Tensor[] *x) -> ()"]
    )
    def test_a_schema_with_a_star_in_another_place_is_refused(self, text: str) -> None:
        with pytest.raises(SchemaError):
            parse_schema(text)
