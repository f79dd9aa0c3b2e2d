"""Edge numbers in the operands of the samples of all ops, beside torch: values and gradients in single.

In each floating operand one item becomes nan, an infinity, a zero, or a number whose square is too large or
too small. What differs from torch has its reason in ``APART``.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest

import oplib
from tests.builtin.grid.calls import OPS, Call, draw_weights_like
from tests.builtin.grid.check import may_differentiate
from tests.builtin.samples.drawing import Sample
from tests.builtin.samples.samples import find_samples
from tests.seed import draw_cases

torch = pytest.importorskip("torch")

from .counterparts import has_counterpart  # noqa: E402  it needs torch
from .torch_samples import function_of, make, make_arguments, to_list, to_numpy  # noqa: E402

pytestmark = pytest.mark.usefixtures("with_64_bits", "without_warnings")
EDGES = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, float(np.finfo(np.float32).max), 1e20, 1e-20)
APART = {
    "torch's decompositions raise at nan and inf, or differ in which items are nan": "linalg_* logdet det",
    "torch leaves some imaginary parts 0 beside nan, and scales before it adds": "fft_*",
    "a convolution multiplies the zeros of the padding by the weight, or leaves them out": "conv*",
    "of several nan ours takes the first, torch the last; of equal items any": "*max_pool* kthvalue mode",
    "a square that is too large is inf: one of the two multiplies it by 0, the other divides by it": (
        "layer_norm group_norm *batch_norm *instance_norm lp_pool* cdist pdist cosine_similarity normalize "
        "renorm"
    ),
    "products that are too large, and inf - inf, depend on the order": (
        "bilinear sdpa flash_attention addr tensordot interpolate index_reduce scatter_reduce* "
        "addcmul addcdiv*"
    ),
    "torch computes inf - inf": "var* std* trapezoid logcumsumexp",
    "torch divides a product by its items": "prod* cumprod",
    "nan among boundaries is the largest item; counts depend on the rounding of edges": (
        "searchsorted bucketize histogram* histc"
    ),
    "torch multiplies 0 by inf, ours is the limit": (
        "igamma* special_zeta* soft_margin_loss softsign special_log_ndtr special_erfcx "
        "poisson_nll_loss kl_div"
    ),
    "special functions of nan are 0 or any number in torch": (
        "special_*_polynomial_* special_airy_ai special_i1"
    ),
    "gradients at nan, as in the table of edges": (
        "logit copysign* polar *elu silu relu6 hard* softshrink prelu clamp.Tensor mish glu atan2 nll_loss"
    ),
    "weights and variances that are nan or inf": (
        "binary_cross_entropy_with_logits gaussian_nll_loss cov ctc_loss"
    ),
    "public functions check the part and the positions": "quantiles* slopes*",
    "torch's single kernel adds what follows the last offset, its double kernel does not": "embedding_bag",
    "torch's gradient is that of what is replaced, as in the grid": "as_strided_scatter",
    "other sizes of items": "view.dtype",
}
NAMES = [
    name
    for name in OPS
    if has_counterpart(name)
    and not any(fnmatchcase(name, f"{one}*") for names in APART.values() for one in names.split())
]


def to_single(value: Any) -> Any:
    if isinstance(value, list):
        return [to_single(one) for one in value]
    if isinstance(value, np.ndarray):
        return value.astype({"f": np.float32, "c": np.complex64}.get(value.dtype.kind, value.dtype))
    return np.dtype(np.float32) if value == np.dtype(np.float64) else value


def list_calls(name: str) -> Iterator[Call]:
    """Yields calls with the first four samples in single, each with one edge number in one operand."""
    for sample in find_samples(OPS[name])[:4]:
        own = Call(
            name,
            Sample(
                tuple(map(to_single, sample.args)),
                {key: to_single(one) for key, one in sample.kwargs.items()},
            ),
        )
        for place in own.places:
            for edge in EDGES:
                arrays = [array.copy() for array in own.arrays]
                if arrays[place].size and arrays[place].dtype.kind == "f":
                    arrays[place].flat[arrays[place].size // 3] = edge
                    yield Call(name, Sample(*own.arguments(arrays)))


def compute(lib: Any, call: Call) -> list[Any]:
    has_gradient = may_differentiate(call.name, call.sample)
    args, kwargs, leaves = make_arguments(lib, call, requires_grad=has_gradient)
    results = to_list(function_of(lib, call.name)(*args, **kwargs))
    floating = [one for one in results if one.requires_grad]
    if floating:
        weights = draw_weights_like([to_numpy(one) for one in floating])
        lib.autograd.backward(floating, [make(lib, weight, []).detach() for weight in weights])
    return [to_numpy(one) for one in results] + [
        np.zeros(leaf.shape, to_numpy(leaf).dtype) if leaf.grad is None else to_numpy(leaf.grad)
        for leaf in leaves
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", draw_cases(NAMES, 8, "edges of ops", is_steady=True))
def test_an_op_is_torchs_where_an_operand_has_an_edge_number(name: str) -> None:
    for call in list_calls(name):
        torch.set_flush_denormal(True)
        try:
            due = compute(torch, call)
        finally:
            torch.set_flush_denormal(False)
        for mine, other in zip(compute(oplib, call), due, strict=True):
            assert (mine.shape, mine.dtype) == (other.shape, other.dtype)
            np.testing.assert_allclose(mine, other, rtol=5e-5, atol=1e-6, err_msg=str(call.sample))


def test_320_overloads_are_compared_at_edges() -> None:
    assert len(NAMES) >= 320
