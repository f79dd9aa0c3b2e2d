"""Convolutions that CPUs compute in another form than XLA's own: they agree with it."""

from __future__ import annotations

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from oplib.nn import functional as F

LETTERS = "DHW"


def draw(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(5).standard_normal(shape), jnp.float32)


def make_case(rank: int, many: int, size: int) -> tuple[jax.Array, jax.Array]:
    return draw(2, 3, *(7, 8, 6)[:rank]), draw(3 * many, 1, *(size,) * rank)


@pytest.mark.matrix(3)
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 2, 2), (2, 0, 2)])
@pytest.mark.parametrize(("rank", "many"), [(1, 1), (2, 1), (2, 2), (3, 1)])
def test_values_and_gradients_are_those_of_a_convolution(rank, many, size, stride, padding, dilation):
    x, w = make_case(rank, many, size)
    letters = LETTERS[-rank:]

    def convolve(x, w):
        return lax.conv_general_dilated(
            x,
            w,
            (stride,) * rank,
            ((padding, padding),) * rank,
            rhs_dilation=(dilation,) * rank,
            dimension_numbers=(f"NC{letters}", f"OI{letters}", f"NC{letters}"),
            feature_group_count=3,
        )

    def call(x, w):
        return getattr(F, f"conv{rank}d")(x, w, None, stride, padding, dilation, 3)

    expected, pull = jax.vjp(convolve, x, w)
    found, pull_found = jax.vjp(call, x, w)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    grad = jnp.cos(expected)
    for mine, its in zip(pull_found(grad), pull(grad), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-4)


def test_halves_are_rounded_once():
    x, w = (array.astype(jnp.bfloat16) for array in make_case(2, 1, 3))
    exact = F.conv2d(x.astype(jnp.float32), w.astype(jnp.float32), padding=1, groups=3)
    found = F.conv2d(x, w, padding=1, groups=3)
    assert found.dtype == jnp.bfloat16
    assert (found == exact.astype(jnp.bfloat16)).all()


def test_a_batch_of_weights_is_mapped():
    x, w = make_case(2, 1, 3)
    weights = jnp.stack([w, -2 * w])
    found = jax.vmap(lambda w: F.conv2d(x, w, groups=3))(weights)
    once = F.conv2d(x, w, groups=3)
    np.testing.assert_allclose(found, jnp.stack([once, -2 * once]), rtol=1e-5, atol=1e-5)


def test_padding_is_no_item_for_infinite_numbers():
    x, w = make_case(2, 1, 3)
    found = F.conv2d(x.at[0, 0, 3, 3].set(jnp.inf).at[0, 1, 0, 0].set(jnp.nan), w, padding=1, groups=3)
    assert int(jnp.isinf(found).sum()) == 9
    assert int(jnp.isnan(found).sum()) == 4


def test_a_depthwise_convolution_on_a_cpu_is_not_left_to_xla():
    x, w = make_case(2, 1, 3)
    call = jax.jit(lambda x, w: F.conv2d(x, w, groups=3))
    assert "convolution(" not in call.lower(x, w).compile().as_text()


def test_a_batch_of_any_size_is_exported():
    x, w = make_case(2, 1, 3)
    (batch,) = jax.export.symbolic_shape("b")
    shape = jax.ShapeDtypeStruct((batch, *x.shape[1:]), x.dtype)
    exported = jax.export.export(jax.jit(lambda x: F.conv2d(x, w, stride=2, padding=1, groups=3)))(shape)
    np.testing.assert_allclose(
        exported.call(x), F.conv2d(x, w, stride=2, padding=1, groups=3), rtol=1e-5, atol=1e-5
    )


def mirror(w: jax.Array, groups: int) -> jax.Array:
    """Returns the weight of the convolution that is equal to a transposed one."""
    axes = tuple(range(2, w.ndim))
    grouped = w.reshape(groups, -1, *w.shape[1:])
    return jnp.flip(jnp.swapaxes(grouped, 1, 2).reshape(-1, w.shape[0] // groups, *w.shape[2:]), axes)


@pytest.mark.matrix(3)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [
        ((3, 2, 3), 1, 0, 1),
        ((2, 3, 2), 2, 1, 1),
        ((3, 2, 2), 1, 2, 2),
        ((1, 1, 1), 1, 0, 1),
        ((2, 2, 2), 2, 0, 1),
    ],
)
@pytest.mark.parametrize("is_transposed", [False, True])
def test_convolutions_of_volumes_are_those_of_xla(is_transposed, kernel, stride, padding, dilation, groups):
    x, w = draw(2, 4, 6, 5, 7), draw(4, 2 if groups == 2 else 4, *kernel)
    ways = {"dimension_numbers": ("NCDHW", "OIDHW", "NCDHW"), "feature_group_count": groups}
    holes = (dilation,) * 3

    def convolve(x, w):
        if not is_transposed:
            return lax.conv_general_dilated(x, w, (stride,) * 3, [(padding,) * 2] * 3, None, holes, **ways)
        around = [(dilation * (size - 1) - padding,) * 2 for size in kernel]
        return lax.conv_general_dilated(x, mirror(w, groups), (1,) * 3, around, (stride,) * 3, holes, **ways)

    def call(x, w):
        if is_transposed:
            return F.conv_transpose3d(x, w, None, stride, padding, 0, groups, dilation)
        return F.conv3d(x, w, None, stride, padding, dilation, groups)

    expected, pull = jax.vjp(convolve, x, w)
    found, pull_found = jax.vjp(call, x, w)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    grad = jnp.cos(expected)
    for mine, its in zip(pull_found(grad), pull(grad), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("kernel", [(2,), (3, 2), (1, 2, 3)])
def test_transposed_convolutions_whose_windows_do_not_overlap_are_products(kernel, groups):
    rank = len(kernel)
    x, w = draw(2, 4, *(4, 5, 3)[:rank]), draw(4, 3, *kernel)
    letters = LETTERS[-rank:]

    def call(x, w):
        return getattr(F, f"conv_transpose{rank}d")(x, w, stride=kernel, groups=groups)

    expected = lax.conv_general_dilated(
        x, mirror(w, groups), (1,) * rank, [(size - 1,) * 2 for size in kernel], kernel,
        dimension_numbers=(f"NC{letters}", f"OI{letters}", f"NC{letters}"), feature_group_count=groups,
    )  # fmt: skip
    np.testing.assert_allclose(call(x, w), expected, rtol=1e-4, atol=1e-4)
    assert " convolution(" not in jax.jit(call).lower(x, w).compile().as_text()


def test_a_convolution_of_volumes_on_a_cpu_has_planes_only():
    cpu = jax.devices("cpu")[0]
    x, w = (jax.device_put(draw(*shape), cpu) for shape in ((1, 2, 4, 5, 5), (3, 2, 3, 3, 3)))
    text = jax.jit(lambda x, w: F.conv3d(x, w, padding=1)).lower(x, w).compile().as_text()
    assert "window={size=3x3 " in text
    assert "3x3x3" not in text
