"""register_sharding: kernels that run on the part of their arrays that a device holds."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P

from oplib.errors import CompilationWarning
from oplib.library import custom_op

from .shards import W, X, make_mesh, put, read_collectives


@pytest.mark.devices(8)
class TestArrayKernels:
    def test_a_rule_cuts_a_kernel_that_xla_cannot_look_into(self) -> None:
        """Asserts the shapes of its arguments, as a call of foreign code would."""
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

    def test_it_is_lowered_for_one_device_that_is_not_here(self) -> None:
        """JAX 0.12 must know the devices of the arrays that may be partitioned."""

        @custom_op("shard::alone")
        def alone(x: jax.Array) -> jax.Array:
            return x * 2

        alone.register_sharding("i j -> i j")
        with jax.sharding.use_abstract_mesh(AbstractMesh((1,), ("i",))):
            lowered = jax.jit(lambda x: alone(x)).trace(X).lower(lowering_platforms=("cuda",))
        assert "stablehlo.multiply" in lowered.as_text()

    def test_axes_that_are_whole_may_be_named_in_any_order(self) -> None:
        """Shardy requires them sorted by their order in the rule."""

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
        run = jax.jit(lambda x, w: product(x, w))  # compiled code keeps its rule
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

    def test_on_an_explicit_mesh_the_kernel_gets_shards(self) -> None:
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

    def test_where_some_axes_are_explicit_the_kernel_gets_the_shards_of_these(self) -> None:
        shapes: list[Any] = []

        @custom_op("shard::partly_typed")
        def partly(x: jax.Array) -> jax.Array:
            shapes.append(x.shape)
            return x * x

        partly.register_sharding("i j -> i j")
        mesh = jax.make_mesh((4, 2), ("i", "k"), axis_types=(AxisType.Explicit, AxisType.Auto))
        with jax.set_mesh(mesh):
            result = jax.jit(partly)(put(X, mesh, "i"))
        np.testing.assert_allclose(result, X * X, rtol=1e-6)
        assert (result.sharding.spec[0], shapes[-1]) == ("i", (2, 4))

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
        """JAX's own derivative and the linearity check both look through the rule."""

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
        """Computes the Cholesky factors by LAPACK, which jaxlib registers as foreign functions."""

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
    def test_a_kernel_that_returns_other_shapes_on_parts_is_an_error_that_shows_both(self, kind: Any) -> None:
        @custom_op("shard::fixed")
        def fixed(x: jax.Array) -> jax.Array:
            return jnp.zeros((8, 4)) + x.sum()

        fixed.register_sharding("i j -> i j")
        mesh = make_mesh(kind)
        with (
            jax.set_mesh(mesh),
            pytest.raises(
                Exception, match=r"shard::fixed: on parts.*From \(f32\[1,4\].* returned \(f32\[8,4\]"
            ),
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
