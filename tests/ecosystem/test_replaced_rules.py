"""Custom derivatives inside of public libraries, replaced by ops, in programs of these libraries."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import oplib
from tests.ecosystem.packages import require
from tests.ecosystem.pairs import assert_close

KEY = jax.random.key(21)

pytestmark = [pytest.mark.usefixtures("forget_ops", "with_64_bits"), pytest.mark.slow]


def draw(place: int, *shape: int) -> jax.Array:
    return jax.random.normal(jax.random.fold_in(KEY, place), shape, "float64")


def compare(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, op: Any, run: Callable[[], Any]) -> None:
    """Runs a program with the rule of the library, and with the op in its place."""
    expected = run()
    calls: list[Any] = []

    def call(*args: Any, **keywords: Any) -> Any:
        calls.append(args)
        return op(*args, **keywords)

    monkeypatch.setattr(owner, name, call)
    jax.clear_caches()  # the library's functions are compiled with its own rule
    assert_close(run(), expected)
    assert calls


def test_the_logsumexp_of_ott_in_sinkhorn(monkeypatch: pytest.MonkeyPatch) -> None:
    utils = require("ott.math.utils")
    pointcloud = require("ott.geometry.pointcloud")
    linear_problem = require("ott.problems.linear.linear_problem")
    sinkhorn = require("ott.solvers.linear.sinkhorn")

    @oplib.custom_op("public::logsumexp")
    def op(
        mat: jax.Array,
        axis: int | None = None,
        keepdims: bool = False,
        b: jax.Array | None = None,
        return_sign: bool = False,
    ) -> Any:
        return jax.scipy.special.logsumexp(mat, axis, b, keepdims, return_sign)

    @op.register_jvp
    def push(primals: Any, tangents: Any) -> Any:
        mat, axis, keepdims, b, return_sign = primals
        return utils.logsumexp_jvp(axis, keepdims, return_sign, (mat, b), (tangents[0], tangents[3]))

    def cost(x: Any, y: Any) -> Any:
        problem = linear_problem.LinearProblem(pointcloud.PointCloud(x, y, epsilon=0.5))
        return sinkhorn.Sinkhorn(max_iterations=20)(problem).reg_ot_cost

    x, y = draw(0, 5, 2), draw(1, 4, 2)
    compare(monkeypatch, utils, "logsumexp", op, lambda: jax.jit(jax.value_and_grad(cost, (0, 1)))(x, y))


def test_the_norm_of_ott_at_equal_points(monkeypatch: pytest.MonkeyPatch) -> None:
    utils, costs = require("ott.math.utils"), require("ott.geometry.costs")

    @oplib.custom_op("public::norm")
    def op(
        x: jax.Array,
        ord: Any = None,  # noqa: A002  its name there
        axis: int | None = None,
        keepdims: bool = False,
    ) -> jax.Array:
        return jnp.linalg.norm(x, ord, axis, keepdims)

    @op.register_jvp
    def push(primals: Any, tangents: Any) -> Any:
        x, *fixed = primals
        return utils.norm_jvp(*fixed, (x,), (tangents[0],))

    def cost(x: Any, y: Any) -> Any:
        return costs.Euclidean().all_pairs(x, y).sum()

    x = draw(2, 4, 3)
    compare(monkeypatch, utils, "norm", op, lambda: jax.value_and_grad(cost)(x, x))


def test_the_softmin_of_ott_in_time_warping(monkeypatch: pytest.MonkeyPatch) -> None:
    utils, costs = require("ott.math.utils"), require("ott.geometry.costs")

    @oplib.custom_op("public::softmin")
    def op(x: jax.Array, gamma: float, axis: int | None = None) -> jax.Array:
        return -gamma * jax.scipy.special.logsumexp(x / -gamma, axis)

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.gamma, ctx.axis = inputs
        ctx.save_for_backward(x)

    @op.register_autograd(setup_context=save)
    def backward(ctx: Any, g: Any) -> Any:
        scaled = ctx.saved_tensors[0] / -ctx.gamma
        spread = g if ctx.axis is None else jnp.expand_dims(g, ctx.axis)
        return jnp.where(jnp.isinf(scaled), 0.0, jax.nn.softmax(scaled, ctx.axis) * spread), None, None

    distance = costs.SoftDTW(gamma=1.0)
    x, y = draw(3, 5), draw(4, 6)
    compare(monkeypatch, utils, "softmin", op, lambda: jax.value_and_grad(distance, (0, 1))(x, y))


def test_the_matrix_root_of_ott_in_a_map_of_gaussians(monkeypatch: pytest.MonkeyPatch) -> None:
    roots = require("ott.math.matrix_square_root")
    scale_tril = require("ott.tools.gaussian_mixture.scale_tril")

    @oplib.custom_op("public::sqrtm_only")
    def op(
        x: jax.Array,
        threshold: float = 1e-6,
        min_iterations: int = 0,
        inner_iterations: int = 10,
        max_iterations: int = 1000,
        regularization: float = 1e-6,
    ) -> jax.Array:
        fixed = threshold, min_iterations, inner_iterations, max_iterations, regularization
        return roots.sqrtm(x, *fixed)[0]

    @op.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output))
    def backward(ctx: Any, g: Any) -> Any:
        (grad,) = roots.sqrtm_only_bwd(*[None] * 5, ctx.saved_tensors[0], g)
        return grad, *[None] * 5

    def move(a: Any, b: Any, points: Any) -> Any:
        scales = [scale_tril.ScaleTriL.from_covariance(factor @ factor.T + jnp.eye(2)) for factor in (a, b)]
        return (scales[0].transport(scales[1], points) ** 2).sum()

    given = draw(5, 2, 2), draw(6, 2, 2), draw(13, 4, 2)
    compare(monkeypatch, roots, "sqrtm_only", op, lambda: jax.value_and_grad(move, (0, 1, 2))(*given))


def test_the_einsum_of_e3nn_in_a_tensor_product(monkeypatch: pytest.MonkeyPatch) -> None:
    e3nn, legacy = require("e3nn_jax"), require("e3nn_jax.legacy")
    core = require("e3nn_jax._src.legacy.core_tensor_product")

    @oplib.custom_op("public::einsum")
    def op(eq: str, xs: list[jax.Array]) -> jax.Array:
        return jnp.einsum(eq, *xs)

    @op.register_jvp
    def push(primals: Any, tangents: Any) -> Any:
        (eq, xs), (_, dots) = primals, tangents
        terms = [op(eq, [*xs[:place], dot, *xs[place + 1 :]]) for place, dot in enumerate(dots)]
        return op(eq, xs), sum(terms)

    product = legacy.FunctionalFullyConnectedTensorProduct("2x0e + 1x1o", "1x1o", "1x0e + 1x1o")
    left, right = draw(7, 5), draw(8, 3)
    weights = [draw(9 + place, *item.path_shape) for place, item in enumerate(product.instructions)]

    def loss(weights: Any, left: Any, right: Any) -> Any:
        inputs = e3nn.IrrepsArray("2x0e + 1x1o", left), e3nn.IrrepsArray("1x1o", right)
        return (product.left_right(weights, *inputs, custom_einsum_jvp=True).array ** 2).sum()

    def run() -> Any:
        return jax.value_and_grad(loss, (0, 1, 2))(weights, left, right), jax.hessian(loss, 1)(
            weights, left, right
        )

    compare(monkeypatch, core, "opt_einsum", lambda eq, *xs: op(eq, list(xs)), run)


def test_the_transform_of_jax_md_in_the_forces_of_a_periodic_box(monkeypatch: pytest.MonkeyPatch) -> None:
    space, energy = require("jax_md.space"), require("jax_md.energy")

    @oplib.custom_op("public::transform")
    def op(box: jax.Array, R: jax.Array) -> jax.Array:
        return space.raw_transform(box, R)

    op.register_jvp(space.transform_jvp)
    points = jax.random.uniform(KEY, (6, 2), "float64")

    def run() -> Any:
        def total(box: Any, points: Any) -> Any:
            displacement, _ = space.periodic_general(box, fractional_coordinates=True)
            return energy.soft_sphere_pair(displacement, sigma=1.5)(points)

        return jax.jit(jax.value_and_grad(total, (0, 1)))(3.0 * jnp.eye(2), points)

    compare(monkeypatch, space, "transform", op, run)


def test_the_rotation_of_jax_md(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = require("jax_md.rigid_body")

    @oplib.custom_op("public::rotate")
    def op(q: jax.Array, v: jax.Array) -> jax.Array:
        return bodies._quaternion_rotate_raw(q, v)

    @op.register_autograd(setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    def backward(ctx: Any, g: Any) -> Any:
        return bodies._quaternion_rotate_bwd(ctx.saved_tensors, g)

    turn = draw(14, 4)
    turn, points = turn / jnp.linalg.norm(turn), draw(15, 6, 3)

    def loss(turn: Any, points: Any) -> Any:
        rotated = jax.vmap(lambda point: bodies._quaternion_rotate(turn, point))(points)
        return (rotated[:, 0] ** 3).sum()

    compare(monkeypatch, bodies, "_quaternion_rotate", op, lambda: jax.grad(loss, (0, 1))(turn, points))


@pytest.mark.parametrize(
    "wrap", [lambda function: function, jax.jit, jax.checkpoint], ids=["", "jit", "remat"]
)
def test_an_operator_of_lineax_is_an_argument_and_the_rule_solves_with_it(wrap: Any) -> None:
    lineax = require("lineax")

    @oplib.custom_op("public::solve")
    def solve(operator: Any, vector: jax.Array) -> jax.Array:
        return lineax.linear_solve(operator, vector).value

    @solve.register_jvp
    def push(primals: Any, tangents: Any) -> Any:
        (operator, vector), (moved, dot) = primals, tangents
        solution = solve(operator, vector)
        return solution, lineax.linear_solve(operator, dot - moved.mv(solution)).value

    def loss(function: Any, matrix: Any, vector: Any) -> Any:
        return (function(lineax.MatrixLinearOperator(matrix), vector) ** 2).sum()

    matrix, vector = draw(16, 3, 3) + 3 * jnp.eye(3), draw(17, 3)
    by_lineax = partial(loss, lambda operator, vector: lineax.linear_solve(operator, vector).value)
    for derive in (partial(jax.grad, argnums=(0, 1)), partial(jax.jacfwd, argnums=(0, 1))):
        found, expected = (wrap(derive(one))(matrix, vector) for one in (partial(loss, solve), by_lineax))
        assert_close(found, expected)


def test_the_implicit_rule_of_optimistix_is_one_op() -> None:
    lineax, optimistix = require("lineax"), require("optimistix")
    solver = optimistix.Newton(rtol=1e-12, atol=1e-12)

    @oplib.custom_op("public::root")
    def root(fn: Callable[..., jax.Array], start: jax.Array, args: Any) -> jax.Array:
        return optimistix.root_find(fn, solver, start, args).value

    @root.register_jvp
    def push(primals: Any, tangents: Any) -> Any:
        (fn, start, args), dots = primals, tangents[2]
        found = root(fn, start, args)
        _, moved = jax.jvp(lambda args: fn(found, args), (args,), (dots,))
        operator = lineax.JacobianLinearOperator(fn, found, args)
        return found, lineax.linear_solve(operator, -moved).value

    def residual(y: Any, args: Any) -> Any:
        matrix, shift = args
        return y - jnp.tanh(matrix @ y / 3 + shift)

    start, args = jnp.zeros(3, "float64"), (draw(18, 3, 3), draw(19, 3))

    def by_optimistix(args: Any) -> Any:
        return optimistix.root_find(residual, solver, start, args).value

    for derive in (jax.jacrev, jax.jacfwd, lambda f: jax.hessian(lambda args: f(args).sum())):
        found, expected = (
            jax.jit(derive(one))(args) for one in (lambda args: root(residual, start, args), by_optimistix)
        )
        assert_close(found, expected)


@pytest.mark.filterwarnings("ignore:The Fp8DotGeneralOp is deprecated")  # others have these rules no more
def test_the_quantization_of_flax_in_a_layer_of_eight_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    fp8, linen = require("flax.linen.fp8_ops"), require("flax.linen")

    @oplib.custom_op("public::in_qdq")
    def op(
        compute_dtype: jax.typing.DTypeLike,
        q_dtype: jax.typing.DTypeLike,
        inp: jax.Array,
        scale: jax.Array,
        amax_history: jax.Array,
    ) -> jax.Array:
        return fp8.quantize_dequantize_update(inp, q_dtype, scale, amax_history, compute_dtype)[0]

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        compute, q_dtype, inp, scale, history = inputs
        ctx.save_for_backward(*fp8.quantize_dequantize_update(inp, q_dtype, scale, history, compute)[1:])

    @op.register_autograd(setup_context=save)
    def backward(ctx: Any, g: Any) -> Any:
        return None, None, g, *ctx.saved_tensors

    x = draw(20, 4, 16).astype("float32")

    def run() -> Any:
        layer = linen.Dense(8, dot_general_cls=linen.Fp8DotGeneralOp)
        variables = layer.init(KEY, x)
        return jax.value_and_grad(lambda variables: (layer.apply(variables, x) ** 2).sum())(variables)

    compare(monkeypatch, fp8, "in_qdq", op, run)


def test_an_adjoint_of_diffrax_is_one_op() -> None:
    diffrax = require("diffrax")

    def integrate(field: Any, start: Any, args: Any, span: tuple[float, float]) -> Any:
        t0, t1 = span
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field), diffrax.Tsit5(), t0, t1, (t1 - t0) / 40, start, args, max_steps=64
        )
        return jax.tree.map(lambda leaf: leaf[-1], solution.ys)

    @oplib.custom_op("public::integrate")
    def op(field: Callable[..., jax.Array], start: jax.Array, args: jax.Array) -> jax.Array:
        return integrate(field, start, args, (0.0, 1.0))

    def save(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.field, _, args = inputs
        ctx.save_for_backward(output, args)

    @op.register_autograd(setup_context=save)
    def backward(ctx: Any, g: Any) -> Any:
        end, args = ctx.saved_tensors

        def run_back(t: Any, state: Any, args: Any) -> Any:
            y, costate, _ = state
            slope, pull = jax.vjp(lambda y, args: ctx.field(t, y, args), y, args)
            moved, by_args = pull(costate)
            return slope, -moved, -by_args

        _, by_start, by_args = integrate(run_back, (end, g, jnp.zeros_like(args)), args, (1.0, 0.0))
        return None, by_start, by_args

    def field(t: Any, y: Any, args: Any) -> Any:
        return jnp.tanh(args @ y)

    start, args = draw(22, 2), draw(23, 2, 2)
    found, expected = (
        jax.jit(jax.grad(lambda start, args, solve=solve: (solve(start, args) ** 2).sum(), (0, 1)))(
            start, args
        )
        for solve in (partial(op, field), lambda *operands: integrate(field, *operands, (0.0, 1.0)))
    )
    assert_close(found, expected)
