"""register_sharding: kernels that run on the part of their arrays that a device has."""

from __future__ import annotations

import re
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from oplib.errors import CompilationWarning, RegistrationValueError
from oplib.library import CustomOpDef, custom_op, define, register_sharding
from oplib.tensor import Tensor

COLLECTIVE = re.compile(r"= \S+ (all-gather|all-to-all|collective-permute|all-reduce|reduce-scatter)[\w-]*\(")
X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(8, 4)
W = np.linspace(0.5, 2, 12, dtype=np.float32).reshape(4, 3)


def make_mesh(kind: AxisType = AxisType.Auto, shape: tuple[int, ...] = (8,)) -> jax.sharding.Mesh:
    return jax.make_mesh(shape, ("i", "k")[: len(shape)], axis_types=(kind,) * len(shape))


def put(value: Any, mesh: jax.sharding.Mesh, *spec: Any) -> jax.Array:
    return jax.device_put(jnp.asarray(value), NamedSharding(mesh, P(*spec)))


def read_collectives(jitted: Any, *args: Any) -> set[str]:
    return set(COLLECTIVE.findall(jitted.lower(*args).compile().as_text()))


def make_host_sine(seen: list[Any], rule: Any = "i j -> i j") -> CustomOpDef:
    """A sine on the host that notes the shapes it gets."""

    @custom_op("shard::sine")
    def sine(x: np.ndarray) -> np.ndarray:
        seen.append(x.shape)
        return np.sin(x)

    sine.register_fake(lambda x: x)
    sine.register_autograd(
        lambda ctx, grad: grad * jnp.cos(ctx.saved_tensors[0]),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    if rule is not None:
        sine.register_sharding(rule)
    return sine


@pytest.mark.devices(8)
class TestHostKernels:
    def test_each_device_runs_its_part_and_nothing_is_gathered(self) -> None:
        seen: list[Any] = []
        sine = make_host_sine(seen)
        x = put(X, make_mesh(), "i")
        run = jax.jit(lambda x: sine(x) * 2)
        result = run(x)
        np.testing.assert_allclose(result, 2 * np.sin(X), rtol=1e-6)
        assert result.sharding.spec == P("i")
        assert seen == [(1, 4)] * 8
        assert read_collectives(run, x) == set()

    def test_the_gradient_is_cut_too(self) -> None:
        sine = make_host_sine([])
        x = put(X, make_mesh(), "i")
        run = jax.jit(jax.grad(lambda x: sine(x).sum()))
        np.testing.assert_allclose(run(x), np.cos(X), rtol=1e-6)
        assert run(x).sharding.spec == P("i")
        assert read_collectives(run, x) == set()

    def test_two_calls_of_one_op_may_be_cut_differently(self) -> None:
        seen: list[Any] = []
        sine, mesh, values = make_host_sine(seen), make_mesh(), X.repeat(2, 1)
        rows, columns = jax.jit(lambda x, y: (sine(x), sine(y)))(
            put(values, mesh, "i"), put(values, mesh, None, "i")
        )
        np.testing.assert_allclose(rows, np.sin(values), rtol=1e-6)
        np.testing.assert_allclose(columns, np.sin(values), rtol=1e-6)
        assert sorted(seen) == [(1, 8)] * 8 + [(8, 1)] * 8

    def test_two_of_them_in_one_program_are_told_apart(self) -> None:
        @custom_op("shard::cosine")
        def cosine(x: np.ndarray) -> np.ndarray:
            return np.cos(x)

        cosine.register_fake(lambda x: x)
        cosine.register_sharding("... -> ...")
        sine, x = make_host_sine([]), put(X, make_mesh(), "i")
        run = jax.jit(lambda x: sine(x) - cosine(x) + sine(2 * x))
        np.testing.assert_allclose(run(x), np.sin(X) - np.cos(X) + np.sin(2 * X), rtol=1e-5, atol=1e-6)
        assert read_collectives(run, x) == set()

    def test_vmap_cuts_the_batch_as_well(self) -> None:
        seen: list[Any] = []
        sine = make_host_sine(seen, "j -> j")
        x = put(X, make_mesh(), "i")
        run = jax.jit(jax.vmap(sine))
        np.testing.assert_allclose(run(x), np.sin(X), rtol=1e-6)
        assert seen == [(4,)] * 8
        assert read_collectives(run, x) == set()

    def test_in_shard_map_it_runs_on_what_it_is_given(self) -> None:
        seen: list[Any] = []
        sine, mesh = make_host_sine(seen), make_mesh()
        run = jax.jit(jax.shard_map(sine, mesh=mesh, in_specs=P("i"), out_specs=P("i")))
        np.testing.assert_allclose(run(put(X, mesh, "i")), np.sin(X), rtol=1e-6)
        assert seen == [(1, 4)] * 8

    def test_on_an_explicit_mesh_the_type_of_the_result_says_how_it_is_cut(self) -> None:
        seen: list[Any] = []
        sine, mesh = make_host_sine(seen), make_mesh(AxisType.Explicit)
        with jax.set_mesh(mesh):
            x = put(X, mesh, "i")
            run = jax.jit(lambda x: (sine(x), jax.grad(lambda x: sine(x).sum())(x)))
            assert jax.eval_shape(run, x)[0].sharding.spec == P("i", None)
            value, grad = run(x)
        np.testing.assert_allclose(value, np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(grad, np.cos(X), rtol=1e-6)
        assert set(seen) == {(1, 4)}

    def test_a_mesh_may_have_axes_of_both_kinds(self) -> None:
        seen: list[Any] = []
        sine = make_host_sine(seen)
        mesh = jax.make_mesh((4, 2), ("i", "k"), axis_types=(AxisType.Explicit, AxisType.Auto))
        with jax.set_mesh(mesh):
            result = jax.jit(sine)(put(X, mesh, "i"))
        np.testing.assert_allclose(result, np.sin(X), rtol=1e-6)
        assert seen == [(2, 4)] * 8

    def test_on_one_device_it_runs_as_without_a_rule(self) -> None:
        seen: list[Any] = []
        np.testing.assert_allclose(jax.jit(make_host_sine(seen))(X), np.sin(X), rtol=1e-6)
        assert seen == [(8, 4)]

    def test_an_eager_call_runs_on_the_parts_of_a_spread_array(self) -> None:
        seen: list[Any] = []
        sine = make_host_sine(seen)
        result = sine(put(X, make_mesh(), "i"))
        np.testing.assert_allclose(result, np.sin(X), rtol=1e-6)
        assert (result.sharding.spec, seen) == (P("i"), [(1, 4)] * 8)

    def test_on_the_tape_value_and_gradient_stay_cut(self) -> None:
        seen: list[Any] = []
        sine = make_host_sine(seen)
        x = Tensor.from_array(put(X, make_mesh(), "i"), requires_grad=True)
        y = sine(x)
        y.sum().backward()
        assert y.array.sharding.spec == P("i")
        assert set(seen) == {(1, 4)}
        np.testing.assert_allclose(x.grad.array, np.cos(X), rtol=1e-6)

    def test_without_a_rule_one_warning_says_that_its_arrays_are_gathered(self) -> None:
        seen: list[Any] = []
        sine = make_host_sine(seen, None)
        x = put(X, make_mesh(), "i")
        with pytest.warns(
            CompilationWarning, match=r"shard::sine: its arrays will be gathered.*register_sharding"
        ):
            result = jax.jit(sine)(x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            jax.jit(lambda x: sine(x) + 1)(x)
        np.testing.assert_allclose(result, np.sin(X), rtol=1e-6)
        assert seen[0] == (8, 4)

    def test_an_error_of_the_kernel_names_the_op(self) -> None:
        sine = make_host_sine([])
        sine.register_fake(lambda x: jnp.zeros(x.shape, jnp.float16))
        with pytest.raises(
            Exception, match=r"shard::sine: the kernel's results are not what its fake kernel"
        ):
            jax.jit(sine)(put(X, make_mesh(), "i")).block_until_ready()


@pytest.mark.devices(8)
class TestArrayKernels:
    def test_a_rule_cuts_a_kernel_that_xla_cannot_look_into(self) -> None:
        """The kernel asserts the shapes it is given, as a call of foreign code would."""
        shapes: list[Any] = []

        @custom_op("shard::flip")
        def flip(x: jax.Array) -> jax.Array:
            shapes.append(x.shape)
            return x[:, ::-1]

        flip.register_sharding("i j -> i j need_replication={j}")
        mesh = make_mesh(shape=(4, 2))
        run = jax.jit(flip)
        np.testing.assert_array_equal(run(put(X, mesh, "i")), X[:, ::-1])
        assert shapes[-1] == (2, 4)
        assert read_collectives(run, put(X, mesh, "i")) == set()
        np.testing.assert_array_equal(run(put(X, mesh, "i", "k")), X[:, ::-1])
        assert shapes[-1] == (2, 4)
        assert read_collectives(run, put(X, mesh, "i", "k")) == {"all-gather"}

    def test_axes_that_are_whole_may_be_named_in_any_order(self) -> None:
        """Shardy wants them sorted by where they stand in the rule."""

        @custom_op("shard::turned")
        def turned(x: jax.Array) -> jax.Array:
            return x[..., ::-1, ::-1]

        turned.register_sharding("i z a -> i z a need_replication={a, z}")
        x = X.reshape(8, 2, 2)
        run = jax.jit(turned)
        np.testing.assert_array_equal(run(put(x, make_mesh(), "i")), x[:, ::-1, ::-1])
        assert read_collectives(run, put(x, make_mesh(), "i")) == set()

    def test_an_axis_of_the_arguments_alone_is_whole_unless_it_is_a_reduction(self) -> None:
        shapes: list[Any] = []

        @custom_op("shard::product")
        def product(x: jax.Array, w: jax.Array) -> jax.Array:
            shapes.append((x.shape, w.shape))
            return x @ w

        mesh = make_mesh(shape=(4, 2))
        x, w = put(X, mesh, "i", "k"), put(W, mesh, "k")
        product.register_sharding("i j, j k -> i k")
        np.testing.assert_allclose(jax.jit(product)(x, w), X @ W, rtol=1e-5)
        assert shapes[-1] == ((2, 4), (4, 3))
        product.register_sharding("i j, j k -> i k reduction={j}")
        run = jax.jit(lambda x, w: product(x, w))  # what was compiled keeps the rule it had
        np.testing.assert_allclose(run(x, w), X @ W, rtol=1e-5)
        assert shapes[-1] == ((2, 2), (2, 3))
        assert read_collectives(run, x, w) == {"all-reduce"}

    @pytest.mark.parametrize("derive", [True, False], ids=["derived", "by a formula"])
    def test_gradients_and_tangents_are_the_ops_and_are_cut(self, derive: bool) -> None:
        @custom_op("shard::scaled")
        def scaled(x: jax.Array, w: jax.Array) -> jax.Array:
            return x * w

        scaled.register_sharding("i j, j -> i j")
        if derive:
            scaled.register_autograd("derive")
        else:
            scaled.register_autograd(
                lambda ctx, g: (g * ctx.saved_tensors[1], (g * ctx.saved_tensors[0]).sum(0)),
                setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
            )
        mesh = make_mesh()
        x, w = put(X, mesh, "i"), put(W[:, 0], mesh)

        @jax.jit
        def run(x: Any, w: Any) -> Any:
            grads = jax.grad(lambda x, w: (scaled(x, w) ** 2).sum() / 2, argnums=(0, 1))(x, w)
            return *grads, jax.jvp(scaled, (x, w), (x, w))[1]

        by_x, by_w, tangent = run(x, w)
        np.testing.assert_allclose(by_x, X * W[:, 0] ** 2, rtol=1e-5)
        np.testing.assert_allclose(by_w, (X * X).sum(0) * W[:, 0], rtol=1e-5)
        np.testing.assert_allclose(tangent, 2 * X * W[:, 0], rtol=1e-5)
        assert by_x.sharding.spec == tangent.sharding.spec == P("i")
        assert read_collectives(run, x, w) == {"all-reduce"}  # the sum for w

    def test_on_an_explicit_mesh_shards_are_what_the_kernel_gets(self) -> None:
        shapes: list[Any] = []

        @custom_op("shard::typed")
        def typed(x: jax.Array, w: jax.Array) -> jax.Array:
            shapes.append((x.shape, w.shape))
            return x @ w

        typed.register_sharding("i j, j k -> i k reduction={j}")
        typed.register_autograd("derive")
        mesh = make_mesh(AxisType.Explicit, (4, 2))
        with jax.set_mesh(mesh):
            x, w = put(X, mesh, "i"), put(W, mesh)
            result = jax.jit(typed)(x, w)
            assert result.sharding.spec == P("i", None)
            assert shapes[-1] == ((2, 4), (4, 3))
            np.testing.assert_allclose(result, X @ W, rtol=1e-5)
            summed = jax.jit(typed)(put(X, mesh, "i", "k"), put(W, mesh, "k"))
            np.testing.assert_allclose(summed, X @ W, rtol=1e-5)
            assert shapes[-1] == ((2, 2), (2, 3))
            grad = jax.jit(jax.grad(lambda x: typed(x, w).sum()))(x)
        np.testing.assert_allclose(grad, np.broadcast_to(W.sum(1), X.shape), rtol=1e-5)

    def test_lists_several_results_and_written_arguments_have_entries(self) -> None:
        @custom_op("shard::mix", mutates_args=("state",))
        def mix(
            xs: list[jax.Array], state: jax.Array, gain: float
        ) -> tuple[jax.Array, jax.Array, list[jax.Array]]:
            return state + 1, xs[0].sum(1), [x * gain for x in xs]

        mix.register_sharding("i j, i -> i, i j")
        mesh = make_mesh()
        x, state = put(X, mesh, "i"), put(X[:, 0], mesh, "i")
        run = jax.jit(lambda x, state: mix._opoverload.functional([x, 2 * x], state, 3.0))
        new, total, scaled = run(x, state)
        np.testing.assert_allclose(new, X[:, 0] + 1, rtol=1e-6)
        np.testing.assert_allclose(total, X.sum(1), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(scaled[1], 6 * X, rtol=1e-6)
        assert read_collectives(run, x, state) == set()

    def test_a_size_that_cannot_be_cut_evenly_is_kept_whole(self) -> None:
        shapes: list[Any] = []

        @custom_op("shard::odd")
        def odd(x: jax.Array) -> jax.Array:
            shapes.append(x.shape)
            return x + 1

        odd.register_sharding("i -> i")
        mesh = make_mesh()

        def run(x: Any) -> Any:
            return odd(jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("i"))))

        np.testing.assert_array_equal(jax.jit(run)(jnp.arange(6.0)), np.arange(6.0) + 1)
        assert shapes[-1] == (6,)

    def test_a_formula_made_of_such_an_op_can_be_transposed(self) -> None:
        """What JAX derives looks through the rule, and so does the check that a formula is linear."""

        @custom_op("shard::inner")
        def inner(x: jax.Array) -> jax.Array:
            return 3 * x

        inner.register_autograd("derive")
        inner.register_sharding("i j -> i j")

        @custom_op("shard::outer")
        def outer(x: jax.Array) -> jax.Array:
            return 3 * x

        outer.register_autograd(lambda ctx, grad: inner(grad))
        mesh = make_mesh()
        x = put(X, mesh, "i")
        run = jax.jit(lambda x: (jax.grad(lambda x: outer(x).sum())(x), jax.jvp(outer, (x,), (x,))[1]))
        grad, tangent = run(x)
        np.testing.assert_allclose(grad, np.full_like(X, 3))
        np.testing.assert_allclose(tangent, 3 * X, rtol=1e-6)
        explicit = make_mesh(AxisType.Explicit)
        with jax.set_mesh(explicit):
            tangent = jax.jit(lambda x: jax.jvp(outer, (x,), (x,))[1])(put(X, explicit, "i"))
        np.testing.assert_allclose(tangent, 3 * X, rtol=1e-6)

    def test_a_foreign_function_gets_its_part_and_without_a_rule_the_whole(self) -> None:
        """The Cholesky factors of LAPACK, which jaxlib has as foreign functions for everybody."""

        def factor(x: jax.Array) -> jax.Array:
            call = jax.ffi.ffi_call("lapack_spotrf_ffi", [x, jax.ShapeDtypeStruct(x.shape[:1], jnp.int32)])
            return call(x, uplo=np.uint8(ord("L")))[0]

        jnp.linalg.cholesky(jnp.eye(2)).block_until_ready()  # registers it
        batch = np.stack([np.eye(3, dtype=np.float32) * (k + 1) for k in range(8)])
        x = put(batch, make_mesh(), "i")
        whole, parts = custom_op("shard::whole", factor), custom_op("shard::parts", factor)
        parts.register_sharding("b i j -> b i j need_replication={i, j}")
        with pytest.warns(CompilationWarning, match="shard::whole: its arrays will be gathered"):
            assert "all-gather" in read_collectives(jax.jit(whole), x)
        run = jax.jit(parts)
        assert read_collectives(run, x) == set()
        np.testing.assert_allclose(run(x), np.sqrt(batch), rtol=1e-6)

    @pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=["auto", "explicit"])
    def test_a_kernel_that_gives_something_else_on_parts_is_an_error_that_shows_both(self, kind: Any) -> None:
        @custom_op("shard::fixed")
        def fixed(x: jax.Array) -> jax.Array:
            return jnp.zeros((8, 4)) + x.sum()

        fixed.register_sharding("i j -> i j")
        mesh = make_mesh(kind)
        with (
            jax.set_mesh(mesh),
            pytest.raises(Exception, match=r"shard::fixed: on parts.*From \(f32\[1,4\].* gave \(f32\[8,4\]"),
        ):
            jax.jit(fixed)(put(X, mesh, "i"))

    def test_a_kernel_that_prints_is_left_to_xla(self, capfd: pytest.CaptureFixture[str]) -> None:
        @custom_op("shard::loud")
        def loud(x: jax.Array) -> jax.Array:
            jax.debug.print("seen {}", x.sum())
            return x + 1

        loud.register_sharding("i j -> i j")
        np.testing.assert_allclose(jax.jit(loud)(put(X, make_mesh(), "i")), X + 1)
        jax.effects_barrier()
        assert capfd.readouterr().out.count("seen") == 1

    def test_an_exported_program_leaves_the_rule_to_xla(self) -> None:
        @custom_op("shard::exported")
        def exported(x: jax.Array) -> jax.Array:
            return x * 2

        exported.register_sharding("i j -> i j")
        x = put(X, make_mesh(), "i")
        program = jax.export.export(jax.jit(exported))(x)
        assert program.nr_devices == 8
        np.testing.assert_allclose(jax.jit(program.call)(x), 2 * X)


@pytest.mark.devices(8)
class TestRulesThatAreFunctions:
    def test_it_is_asked_with_a_mesh_axis_for_every_axis_and_works_for_any_rank(self) -> None:
        asked: list[Any] = []
        shapes: list[Any] = []

        @custom_op("shard::soft")
        def soft(x: jax.Array) -> jax.Array:
            shapes.append(x.shape)
            return jax.nn.softmax(x)

        @soft.register_sharding
        def keep_last_axis_whole(x: P) -> tuple[P, P]:
            asked.append(x)
            spec = P(*x[:-1], None)
            return spec, spec

        mesh = make_mesh(shape=(4, 2))
        for value, spec, due in ((X, ("i", "k"), (2, 4)), (X.reshape(4, 2, 4), ("i", "k", None), (1, 1, 4))):
            run = jax.jit(soft)
            np.testing.assert_allclose(run(put(value, mesh, *spec)), jax.nn.softmax(value), rtol=1e-5)
            assert shapes[-1] == due
        assert asked[0] == P("x0", "x1")
        assert asked[-1] == P("x0", "x1", "x2")

    def test_it_may_return_a_text(self) -> None:
        @custom_op("shard::shifted")
        def shifted(x: jax.Array) -> jax.Array:
            return x + 1

        shifted.register_sharding(lambda x: "i j -> i j" if len(x) == 2 else "i -> i")
        x = put(X, make_mesh(), "i")
        run = jax.jit(shifted)
        np.testing.assert_allclose(run(x), X + 1)
        assert read_collectives(run, x) == set()

    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            (3, "it returned 3"),
            ((P("a"), (P(), P())), "it returned 2 specs where 1 are due"),
            ((P("x0"), P("x0")), r"it returned 1 axes for argument 0, which has 2"),
        ],
    )
    def test_an_answer_that_does_not_fit_is_refused(self, answer: Any, told: str) -> None:
        @custom_op("shard::wrong")
        def wrong(x: jax.Array) -> jax.Array:
            return x

        wrong.register_sharding(lambda x: answer)
        with pytest.raises(RegistrationValueError, match=rf"shard::wrong: the sharding rule.*{told}"):
            wrong(X)


class TestSymbolicShapes:
    def test_a_rule_fits_sizes_that_are_not_known(self) -> None:
        @custom_op("shard::symbolic")
        def product(x: jax.Array, w: jax.Array) -> jax.Array:
            return x @ w

        product.register_sharding("i j, j k -> i k")
        (size,) = jax.export.symbolic_shape("n")
        shapes = jax.ShapeDtypeStruct((size, 4), "float32"), jax.ShapeDtypeStruct((4, 3), "float32")
        exported = jax.export.export(jax.jit(product))(*shapes)
        np.testing.assert_allclose(exported.call(X, W), X @ W, rtol=1e-5)


class TestRefusals:
    @pytest.mark.parametrize(
        ("rule", "told"),
        [
            ("i j", "it has 0 arrows"),
            ("i -> j -> k", "it has 2 arrows"),
            ("i j -> i j", r"it has 1 entries for arguments, and the op has 2: x, ys"),
            ("i j, j, k -> i", r"it has 3 entries for arguments"),
            ("i j, j -> i, j", r"it has 2 entries for results, and the op has 1"),
            ("i (j k), j -> i", r"axis 1 of argument 0 \('x'\) is written '\(j'"),
            ("i ..., j -> i", r"axis 1 of argument 0 \('x'\) is written '...'"),
            ("i j, j 2k -> i", r"axis 1 of argument 1 \('ys'\) is written '2k'"),
            ("i i, j -> i", r"axis 1 of argument 0 \('x'\) is called 'i', like an axis before it"),
            ("i j, j -> i i", r"axis 1 of result 0 is called 'i'"),
            (
                "i j, j -> i reduction={i}",
                "axis 'i' is named a reduction, and is not one that only arguments",
            ),
            ("i j, j -> i reduction={l}", "axis 'l' is named a reduction"),
            ("i j, j -> i need_replication={l}", "axis 'l' is to be kept whole, and no array has it"),
            ("i j, j -> i permutation={j}", "there is no kind of axis called 'permutation'"),
        ],
    )
    def test_a_text_that_does_not_fit_the_schema_is_refused_with_the_position(
        self, rule: str, told: str
    ) -> None:
        define("shard::schema", "(Tensor x, Tensor[] ys, float z) -> Tensor")
        with pytest.raises(RegistrationValueError, match=rf"shard::schema: the sharding rule .*{told}"):
            register_sharding("shard::schema", rule)

    def test_what_is_neither_text_nor_function_is_a_type_error(self) -> None:
        define("shard::schema", "(Tensor x) -> Tensor")
        with pytest.raises(
            TypeError, match=r"register_sharding\(shard::schema\): the rule is a text.*Got int"
        ):
            register_sharding("shard::schema", 3)

    @pytest.mark.parametrize(
        ("rule", "told"),
        [
            ("i, j k -> i k", r"argument 0 \('x'\) has 2 axes, f32\[8,4\], and its entry names 1"),
            ("i j, j k l -> i k", r"argument 1 \('w'\) has 2 axes, f32\[4,3\], and its entry names 3"),
            ("i j, j k -> i", r"result 0 has 2 axes, f32\[8,3\], and its entry names 1"),
            ("i j, i k -> i k", r"axis 0 of argument 1 \('w'\) is 'i' and 4 long, where another is 8"),
            ("i j, j k -> i j", r"axis 1 of result 0 is 'j' and 3 long, where another is 4"),
        ],
    )
    def test_a_rule_that_does_not_fit_the_ranks_is_refused_at_the_call(self, rule: str, told: str) -> None:
        @custom_op("shard::ranks")
        def ranks(x: jax.Array, w: jax.Array) -> jax.Array:
            return x @ w

        ranks.register_sharding(rule)
        for run in (ranks, jax.jit(ranks)):
            with pytest.raises(RegistrationValueError, match=rf"shard::ranks: the sharding rule .*{told}"):
                run(X, W)
        ranks.register_sharding("i j, j k -> i k")
        np.testing.assert_allclose(ranks(X, W), X @ W, rtol=1e-5)

    def test_leading_axes_may_be_left_open(self) -> None:
        @custom_op("shard::open")
        def product(x: jax.Array, w: jax.Array) -> jax.Array:
            return x @ w

        product.register_sharding("... i j, j k -> ... i k")
        np.testing.assert_allclose(product(X, W), X @ W, rtol=1e-5)
        np.testing.assert_allclose(product(X[None, None], W)[0, 0], X @ W, rtol=1e-5)
