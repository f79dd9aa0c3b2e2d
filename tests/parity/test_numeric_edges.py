"""Numbers where a formula could fail: least integers, residuals and logits of 0, infinities and nan."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
import oplib.nn.functional as F

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8"])
@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_divisors_and_multiples_of_the_ends_of_a_range_are_those_of_numpy(dtype, name):
    limits = np.iinfo(dtype)
    ends = np.array([limits.min, limits.max, 0, 1, 6, 12, limits.max - 1], dtype)
    x, y = np.meshgrid(ends, ends)
    found = getattr(oplib, name)(oplib.tensor(x), oplib.tensor(y)).numpy()
    expected = getattr(np, name)(x, y)
    has_room = np.vectorize(math.lcm, otypes=[float])(x.astype(object), y.astype(object)) <= limits.max
    fits = np.ones_like(has_room) if name == "gcd" else has_room  # numpy leaves the sign of others open
    np.testing.assert_array_equal(found[fits], expected[fits])


SMOOTH = {
    "huber_loss": lambda lib, x, y: lib.huber_loss(x, y, reduction="sum"),
    "smooth_l1_loss": lambda lib, x, y: lib.smooth_l1_loss(x, y, reduction="sum", beta=0.5),
    "binary_cross_entropy_with_logits": lambda lib, x, y: lib.binary_cross_entropy_with_logits(
        x, y, reduction="sum"
    ),
    "with pos_weight": lambda lib, x, y: lib.binary_cross_entropy_with_logits(
        x, y, reduction="sum", pos_weight=y + 2
    ),
    "multilabel_soft_margin_loss": lambda lib, x, y: lib.multilabel_soft_margin_loss(x, y, reduction="sum"),
}


@pytest.mark.matrix(4)
@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("at", [0.0, 1e-6, 0.3, -2.0])
def test_the_second_derivative_of_a_smooth_loss_is_that_of_its_neighbourhood(name, at):
    """Where torch is wrong itself, at 0, finite differences of the gradient decide."""
    loss, target = SMOOTH[name], jnp.zeros((1, 1))

    def slope(x):
        return jax.grad(lambda x: loss(F, jnp.reshape(x, (1, 1)), target))(x)

    with jax.enable_x64(True):
        target = jnp.zeros((1, 1))
        step = 1e-3
        expected = (slope(jnp.asarray(at + step)) - slope(jnp.asarray(at - step))) / (2 * step)
        found = jax.grad(slope)(jnp.asarray(at))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in SMOOTH if name != "multilabel_soft_margin_loss"])
@pytest.mark.parametrize("target", [0.0, 0.3, 1.0])
def test_the_losses_of_extreme_numbers_are_those_of_torch(name, target):
    x = np.array([[-np.inf, -100, -3, -0.0, 0, 2, 90, np.inf, np.nan]], np.float32)
    theirs, ours = torch.tensor(x, requires_grad=True), oplib.tensor(x, requires_grad=True)
    expected = SMOOTH[name](torch.nn.functional, theirs, torch.full((1, 9), target))
    found = SMOOTH[name](F, ours, oplib.full((1, 9), target))
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy())
    expected.backward()
    found.backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), rtol=1e-6, atol=1e-7)


INF, NAN = np.inf, np.nan
PREFIXES = {  # the gradients of the sum of all results; 0 for a prefix of -inf, as logsumexp has it
    "numbers": ([1, 2, 3], None),
    "equal large": ([1e8, 1e8], [1.5, 0.5]),
    "from least": ([-INF, -INF, 1, 2], [0, 0, 1.2689414, 0.7310586]),
    "all least": ([-INF, -INF], [0, 0]),
    "an inf": ([1, INF, 2], [1, 0, 0]),
    "far apart": ([100, -100, 88, -1e30], None),
    "a nan": ([1, NAN, 2], None),
}


@pytest.mark.parametrize("name", PREFIXES)
def test_cumulative_sums_of_exponentials_are_right_at_the_edges(name):
    items, gradient = PREFIXES[name]
    theirs = torch.tensor(items, dtype=torch.float32, requires_grad=True)
    ours = oplib.tensor(np.array(items, np.float32), requires_grad=True)
    expected, found = torch.logcumsumexp(theirs, 0), oplib.logcumsumexp(ours, 0)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-6)
    expected.sum().backward()
    found.sum().backward()
    due = theirs.grad.numpy() if gradient is None else gradient
    np.testing.assert_allclose(ours.grad.numpy(), due, rtol=1e-5)


@pytest.mark.parametrize("name", ["sigmoid", "exp2", "atan", "tanh", "log1p", "expm1", "sin", "asinh", "erf"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_function_of_halves_is_rounded_once(name, dtype):
    items = np.array([-8, -0.7, 0.0, 0.01, 0.3, 1, 8, 16, 300], np.float32)
    half = oplib.tensor(items).to(getattr(oplib, dtype))
    function = getattr(oplib, name, None) or getattr(oplib.special, name)
    single = function(half.to(oplib.float32)).to(half.dtype)
    np.testing.assert_array_equal(function(half).float().numpy(), single.float().numpy())


@pytest.mark.parametrize("decimals", [2, 5])
def test_decimals_of_halves_do_not_overflow(decimals):
    found = oplib.round(oplib.tensor([700.0, 0.3], dtype=oplib.float16), decimals=decimals)
    assert found.tolist() == [700, np.float16(0.3)]


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gammas_have_their_limits(name):
    first, second = [0, INF, 1, 0, INF, NAN], [0.5, 2, 2, INF, 0, 1]
    expected = getattr(torch.special, name)(torch.tensor(first), torch.tensor(second))
    found = getattr(oplib.special, name)(oplib.tensor(first), oplib.tensor(second))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-6)


def test_the_derivative_of_a_remainder_is_that_of_the_quotient_it_leaves():
    gradients = []
    for lib in (torch, oplib):
        x, y = lib.tensor([0.5, -0.5, 7, -7, 5]), lib.tensor([0.1, 0.1, 3, 3, INF], requires_grad=True)
        lib.remainder(x, y).sum().backward()
        gradients.append(y.grad.numpy())
    np.testing.assert_array_equal(gradients[1], gradients[0])


def test_the_logarithm_of_no_sum_has_no_derivative():
    x = oplib.tensor([-INF, -INF, 0.0], requires_grad=True)
    total = oplib.logaddexp(x, oplib.tensor([-INF, 1, 0]))
    total.sum().backward()
    np.testing.assert_allclose(total.detach().numpy(), [-INF, 1, np.log(2)], rtol=1e-6)
    assert x.grad.tolist() == [0, 0, 0.5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_powers_of_two_are_exact_and_others_near(dtype):
    with jax.enable_x64(True):
        ends = [-INF, -1e30, 1e30, INF, NAN, -0.0, *([128, 127.99] if dtype == np.float32 else [1024])]
        whole = np.arange(-126, 128).astype(dtype)
        np.testing.assert_array_equal(
            oplib.exp2(oplib.tensor(whole)).numpy(), np.ldexp(dtype(1), whole.astype(int))
        )
        items = np.concatenate([np.linspace(-120, 120, 1001), ends]).astype(dtype)
        with np.errstate(over="ignore"):
            due = np.exp2(items)
        found = oplib.exp2(oplib.tensor(items)).numpy()
        np.testing.assert_allclose(found, due, rtol=3 * np.finfo(dtype).eps)


SECOND = {  # functions whose second derivatives are known
    "log_ndtr": (lambda x: oplib.special.log_ndtr(x), [15, 20, 39, 60], 0.0),
    "log_ndtr below": (lambda x: oplib.special.log_ndtr(x), [-200, -60], -1.0),
    "i1": (lambda x: oplib.special.i1(x), [1e-8, 1e-3, 0], [3.75e-9, 3.75e-4, 0]),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives_are_right_at_edges(name):
    function, items, due = SECOND[name]
    x = oplib.tensor(np.array(items, np.float32), requires_grad=True)
    (first,) = oplib.autograd.grad(function(x).sum(), x, create_graph=True)
    (second,) = oplib.autograd.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), np.broadcast_to(due, len(items)), rtol=3e-3, atol=1e-12)


@pytest.mark.matrix(4)
@pytest.mark.parametrize("at", [-3, -1, -0.99, 0, 0.4, 0.999, 1, 1.001, 7])
def test_the_bessel_function_i1_joins_its_series_smoothly(at):
    with jax.enable_x64(True):
        function = oplib.special.i1
        for _ in range(3):
            step = 1e-5
            due = (function(jnp.asarray(at + step)) - function(jnp.asarray(at - step))) / (2 * step)
            function = jax.grad(function)
            np.testing.assert_allclose(function(jnp.asarray(float(at))), due, rtol=1e-5, atol=1e-7)


FIRST = {
    "erfcx": lambda lib, x: lib.special.erfcx(x),
    "acosh": lambda lib, x: lib.acosh(x),
    "log_ndtr": lambda lib, x: lib.special.log_ndtr(x),
    "lerp by its weight": lambda lib, x: lib.lerp(lib.tensor(INF), lib.tensor(1.0), x),
    "lerp to inf": lambda lib, x: lib.lerp(lib.tensor(1.0), lib.tensor(INF), x),
}


@pytest.mark.parametrize("name", FIRST)
def test_gradients_at_infinite_numbers_are_those_of_torch(name):
    gradients = []
    for lib in (torch, oplib):
        x = lib.tensor(
            [-INF, -3, 0.25, 0.5, 1, 3] if name == "erfcx" else [0.25, 0.5, 1, 3], requires_grad=True
        )
        FIRST[name](lib, x).sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-5)


def test_the_zeta_function_has_its_limit():
    assert oplib.special.zeta(oplib.tensor([INF, 2]), oplib.tensor([1.0, 1])).tolist()[0] == 1


@pytest.mark.parametrize("p", [0, 1, 2, 3, INF])
def test_rows_without_columns_have_no_distance(p):
    x = np.zeros((3, 0), np.float32)
    assert oplib.cdist(oplib.tensor(x), oplib.tensor(x[:2]), p).tolist() == [[0, 0]] * 3
    assert F.pdist(oplib.tensor(x), p).tolist() == [0, 0, 0]


def test_a_solution_that_is_too_large_for_its_dtype_is_infinite_and_its_matrix_not_singular():
    for lib in (torch, oplib):
        regular, right = lib.tensor([[0.1, 0.0], [0.0, 1.0]]), lib.tensor([3e38, 1.0])
        assert lib.linalg.solve(regular, right).tolist() == [INF, 1]
        with pytest.raises(RuntimeError, match="singular"):
            lib.linalg.solve(regular * lib.tensor([0.0, 1.0]), right)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("item", [NAN, INF, -INF])
def test_a_range_of_any_dtype_that_is_not_finite_is_refused(item, dtype):
    for lib in (torch, oplib):
        with pytest.raises(RuntimeError, match="finite"):
            lib.histc(lib.tensor([1.0, item, 2.0], dtype=getattr(lib, dtype)), 4)


@pytest.mark.parametrize("items", [[1.0, NAN, 2.0], [1.0, INF, 2.0]])
def test_a_range_that_is_not_finite_is_refused_and_one_that_is_given_is_counted(items):
    counts = []
    for lib in (torch, oplib):
        x = lib.tensor(items)
        for call in (lib.histc, lib.histogram):
            with pytest.raises(RuntimeError, match="finite"):
                call(x, 4)
        with pytest.raises(RuntimeError, match="finite"):
            lib.histc(x, 4, 0, INF)
        counts.append([lib.histc(x, 4, 0, 3).tolist(), lib.histogram(x, 4, range=(0.0, 3.0))[0].tolist()])
    assert counts[0] == counts[1]


@pytest.mark.parametrize("p", [0.5, 1, 2])
def test_a_row_that_is_kept_has_the_gradient_of_what_is_kept(p):
    gradients = []
    for lib in (torch, oplib):
        x = lib.tensor([[NAN, 1.0], [0.0, 0.25], [3.0, 4.0], [0.0, 0.0]], requires_grad=True)
        lib.renorm(x, p, 0, 1.0).sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("p", [0.5, 1, 2])
def test_a_row_of_complex_numbers_has_a_real_bound(p):
    found = []
    for lib in (torch, oplib):
        x = lib.tensor([[3.0, 4j], [0.1, 0.1 + 0.1j]], requires_grad=True)
        kept = lib.renorm(x, p, 0, 1.0)
        kept.abs().sum().backward()
        found.append([kept.detach().numpy(), x.grad.numpy()])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "items", [[1e20, 3e20], [1e-30, 3e-30], [-1e37, 1e38, 2e38], [1e-20, 3e-30], [0.0, 0.0]]
)
def test_a_deviation_whose_square_leaves_the_range_is_that_of_torch(items):
    found = []
    for lib in (torch, oplib):
        x = lib.tensor([items, items[::-1]], requires_grad=True)
        lib.std(x, 1).sum().backward()
        whole = lib.std_mean(x.detach(), correction=0)[0]
        found.append([lib.std(x.detach(), 0, keepdim=True).numpy(), whole.numpy(), x.grad.numpy()])
    for theirs, mine in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-37)


@pytest.mark.parametrize("items", [[1.0, -1.0, 0.5], [0.7, 0.7j, -0.7 - 0.7j]])
@pytest.mark.parametrize("scale", [1.9 * 2.0**127, 2.0**-120])
def test_a_deviation_scales_as_its_items_up_to_the_ends_of_the_range(items, scale):
    found = []
    for factor in (1.0, scale):
        x = (oplib.tensor(items) * factor).requires_grad_()
        (gradient,) = oplib.autograd.grad(x.std(), x)
        found.append((x.std().item() / factor, gradient.numpy()))
    for base, scaled in zip(*found, strict=True):
        np.testing.assert_allclose(scaled, base, rtol=1e-5)


def test_a_deviation_of_doubles_stays_in_their_range(with_64_bits):
    for scale in (1e200, 1e-200):
        x = oplib.tensor([scale, 3 * scale], dtype=oplib.float64)
        assert x.std().item() == pytest.approx(2**0.5 * scale, rel=1e-12)


POOLED = {
    "max_pool1d": ([[[-INF, -INF, 1.0, 2.0]]], (2, 2, 1)),
    "max_pool2d": ([[[[-INF, -INF], [-INF, 2.0]]]], (2, 2, 1)),
    "max_pool3d": ([[[[[-INF, 1.0]], [[-INF, -INF]]]]], ((2, 1, 2), (1, 1, 2), (1, 0, 1))),
}


@pytest.mark.parametrize("name", POOLED)
def test_an_item_of_minus_infinity_beside_padding_is_selected_and_keeps_its_gradient(name):
    items, window = POOLED[name]
    found = []
    for lib in (torch, oplib):
        x = lib.tensor(items, requires_grad=True)
        largest, places = getattr(lib.nn.functional, name)(x, *window, return_indices=True)
        largest.sum().backward()
        found.append((largest.tolist(), places.tolist(), x.grad.tolist()))
    assert found[0] == found[1]


def test_coordinates_of_equal_distance_share_the_gradient_of_the_largest():
    x, y = oplib.tensor([[0.0, 0.0, 3.0]], requires_grad=True), oplib.tensor([[1.0, -1.0, 3.0]])
    distance = oplib.cdist(x, y, p=INF)
    distance.sum().backward()
    assert (distance.tolist(), x.grad.tolist()) == ([[1]], [[-0.5, 0.5, 0]])


@pytest.mark.parametrize("name", ["i0", "i1"])
def test_bessel_functions_are_infinite_where_their_exponential_is(name, with_64_bits):
    for lib in (torch, oplib):
        function = getattr(lib.special, name)
        assert function(lib.tensor([714.0], dtype=lib.float64)).tolist() == [INF]
        assert function(lib.tensor([92.0], dtype=lib.float32)).tolist() == [INF]
        assert math.isfinite(function(lib.tensor([700.0], dtype=lib.float64)).item())
        assert math.isfinite(function(lib.tensor([88.0], dtype=lib.float32)).item())


BESIDE = {
    "mse_loss": F.mse_loss,
    "huber_loss": F.huber_loss,
    "zeros_like": lambda x, t: F.huber_loss(x, oplib.zeros_like(x)),
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
    "cosine_similarity": lambda x, t: F.cosine_similarity(x, t, 0),
    "gaussian_nll_loss": lambda x, t: F.gaussian_nll_loss(x, t, oplib.ones(2)),
    "triplet_margin_loss": lambda x, t: F.triplet_margin_loss(x[None], t[None], t[None] * 2),
    "cross_entropy": lambda x, t: F.cross_entropy(x[None], F.softmax(t, 0)[None]),
    "layer_norm": lambda x, t: F.layer_norm(x, (2,), t, t),
    "attention": lambda x, t: F.scaled_dot_product_attention(x[None, None], t[None, None], t[None, None]),
    "conv1d": lambda x, t: F.conv1d(x[None, None], t[None, None]),
    "linear": lambda x, t: F.linear(x, t[None]),
    "einsum": lambda x, t: oplib.einsum("i,i->", x, t),
    "where": lambda x, t: oplib.where(x > 1, x, t),
    "cat": lambda x, t: oplib.cat([t, x]),
    "scatter": lambda x, t: oplib.scatter(t, 0, oplib.tensor([1, 0]), x),
    "gather": lambda x, t: oplib.gather(x, 0, oplib.tensor([1])),
    "operators": lambda x, t: (t * x - t) @ (x / t),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_tensor_beside_a_traced_array_is_its_array(name):
    tensor, x = oplib.tensor([1.0, 2.0]), jnp.array([0.5, 3.0])

    def find_both(x, beside):
        return jnp.sum(jnp.asarray(BESIDE[name](x, beside)))

    expected = jax.value_and_grad(find_both)(x, tensor.array)
    found = jax.vmap(jax.value_and_grad(lambda x: find_both(x, tensor)))(jnp.stack([x, x]))
    compiled = jax.jit(jax.value_and_grad(lambda x: find_both(x, tensor)))(x)
    for mine, mapped, theirs in zip(compiled, found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)
        np.testing.assert_allclose(mapped[0], theirs, rtol=1e-6)


def test_matrices_of_full_and_lower_rank_in_one_batch_have_their_pseudoinverses():
    full = np.array([[1.0, 2.0], [3.0, 5.0], [0.0, 1.0]], np.float32)
    batch = np.stack([full, full[:, :1] * np.array([[1.0, 2.0]], np.float32), 0 * full])
    for matrices in (batch, batch.swapaxes(1, 2), batch[:1]):
        found = []
        for lib in (torch, oplib):
            x = lib.tensor(matrices, requires_grad=True)
            inverse = lib.linalg.pinv(x)
            (inverse**3).sum().backward()
            found.append((inverse.detach().numpy(), x.grad.numpy()))
        for theirs, mine in zip(*found, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=1e-5)
        mapped = jax.vmap(oplib.linalg.pinv)(jnp.asarray(matrices))
        np.testing.assert_allclose(mapped, found[0][0], rtol=2e-4, atol=1e-5)


def test_deviations_of_rows_are_those_of_one_row_whatever_the_others_are():
    rows = jnp.array([[1e20, 3e20], [1.0, 2.5], [1e-30, 3e-30], [2.0, 2.0], [jnp.nan, 1.0]])

    def differentiate(row):
        return jax.value_and_grad(oplib.std)(row)

    alone = [differentiate(row) for row in rows]
    for mapped, one in zip(jax.vmap(differentiate)(rows), zip(*alone, strict=True), strict=True):
        np.testing.assert_allclose(mapped, jnp.stack(one), rtol=1e-6)
