"""What of torch is called beside an op: its function of the name, or a call where the arguments differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import oplib
from oplib.builtin.public_functions.registry import UPCALLS
from tests.builtin.grid.calls import OPS, ROW_OF
from tests.builtin.samples.special import POLYNOMIALS, POSITIVE_ONLY

Function = Callable[..., Any]
ATEN = torch.ops.aten
FUNCTIONAL = torch.nn.functional


def without_phases(decompose: Function, *places: int) -> Function:
    """A decomposition whose vectors are unique but for signs or phases: of these, the magnitudes."""

    def unique(*args: Any) -> Any:
        return [part.abs() if place in places else part for place, part in enumerate(decompose(*args))]

    return unique


def first_of(function: Function) -> Function:
    return lambda *args, **kwargs: function(*args, **kwargs)[0]


def with_int32(function: Function, which: int) -> Function:
    """A function one argument of which is int32, where those of samples are int64."""
    return lambda *args, **kwargs: function(
        *[arg.int() if number == which else arg for number, arg in enumerate(args)], **kwargs
    )


def place(indices: list[Any], dims: list[int]) -> list[Any]:
    """Indices as torch takes them: None for the dims before and between."""
    by_dim = dict(zip(dims, indices, strict=True))
    return [by_dim.get(dim) for dim in range(max(dims) + 1)]


def index_put_torch(x: Any, indices: list[Any], values: Any, dims: list[int], accumulate: bool) -> Any:
    return ATEN.index_put(x, place(indices, dims), values, accumulate)


def batch_norm_torch(x: Any, weight: Any = None, bias: Any = None) -> Any:
    return FUNCTIONAL.batch_norm(x, None, None, weight, bias, training=True)


def bag_torch(weight: Any, indices: Any, offsets: Any, per_sample_weights: Any = None, **options: Any) -> Any:
    return FUNCTIONAL.embedding_bag(
        indices, weight, offsets, per_sample_weights=per_sample_weights, **options
    )


def unpool_torch(rank: int) -> Function:
    """With a window of two places, as those of the samples are."""
    unpool = getattr(FUNCTIONAL, f"max_unpool{rank}d")
    return lambda x, indices, sizes: unpool(x, indices, 2, output_size=sizes)


def logits_loss_torch(x: Any, y: Any, weight: Any = None, pos_weight: Any = None, **options: Any) -> Any:
    return FUNCTIONAL.binary_cross_entropy_with_logits(x, y, weight, pos_weight=pos_weight, **options)


def lstsq_torch(x: Any, y: Any) -> Any:
    found = torch.linalg.lstsq(x, y)
    return found.solution, found.rank


# By overload or op.
ON_TORCH: dict[str, Function] = {
    "_index_put": index_put_torch,
    "_to_copy": lambda x, dtype: x.to(dtype, copy=True),
    "alias": lambda x: x.view_as(x),
    "binary_cross_entropy_with_logits": logits_loss_torch,
    "block_diag": lambda tensors: torch.block_diag(*tensors),
    "copy": lambda x, source: x.clone().copy_(source),
    "einsum": lambda equation, operands: torch.einsum(equation, *operands),
    "elu": ATEN.elu,
    "embedding.padded": torch.embedding,
    "embedding_bag": bag_torch,
    "expand": lambda x, shape: x.expand(shape),
    "fixed_batch_norm": FUNCTIONAL.batch_norm,
    "fmod.Scalar_Tensor": lambda number, x: torch.fmod(torch.tensor(number, dtype=x.dtype), x),
    "flash_attention": lambda q, k, v, is_causal, scale: FUNCTIONAL.scaled_dot_product_attention(
        q, k.unsqueeze(-3), v.unsqueeze(-3), is_causal=is_causal, scale=scale
    ),
    "histogram_grid": lambda x, bins, weight=None, density=False: torch.histogramdd(
        x, list(bins), weight=weight, density=density
    )[0],
    "index": lambda x, indices, dims: ATEN.index(x, place(indices, dims)),
    "linalg_eig": without_phases(torch.linalg.eig, 1),
    "linalg_eigh": without_phases(torch.linalg.eigh, 1),
    "linalg_lstsq": lstsq_torch,
    "linalg_pinv_bounded": lambda x, atol, rtol: torch.linalg.pinv(x, atol=atol, rtol=rtol),
    "linalg_svd": without_phases(torch.linalg.svd, 0, 2),
    "linalg_ldl_solve": with_int32(torch.linalg.ldl_solve, 1),
    "linalg_lu_solve": with_int32(torch.linalg.lu_solve, 1),
    "lu_unpack": with_int32(torch.lu_unpack, 1),
    **{f"max_unpool{rank}d": unpool_torch(rank) for rank in (1, 2, 3)},
    "native_batch_norm": batch_norm_torch,
    "native_instance_norm": lambda x, *weights: FUNCTIONAL.instance_norm(x, None, None, *weights),
    "polygamma": lambda x, n: torch.polygamma(n, x),
    "quantiles": lambda x, q, dim, keepdim, interpolation, skips_nan: (
        torch.nanquantile if skips_nan else torch.quantile
    )(x, q, dim, keepdim, interpolation=interpolation),
    "rdiv": lambda x, number: number / x,
    **{f"sampled_max_pool{rank}d": getattr(ATEN, f"fractional_max_pool{rank}d") for rank in (2, 3)},
    "sdpa": FUNCTIONAL.scaled_dot_product_attention,
    "slopes": lambda x, spacing, dim, edge_order: torch.gradient(
        x, spacing=(spacing,), dim=dim, edge_order=edge_order
    )[0],
    "stored": lambda x, shape, dtype: x.expand(shape).to(dtype),
    "sum_to_size": lambda x, shape: x.sum_to_size(shape),
    "tensordot": lambda x, y, first, second: torch.tensordot(x, y, (first, second)),
    "view": lambda x, shape: x.view(shape),
    "zero": lambda x: x.clone().zero_(),
}
# What is called on oplib where that is not the function by which the op is public.
ON_OPLIB: dict[str, Function] = {
    "fixed_batch_norm": OPS["fixed_batch_norm"],
    "flash_attention": first_of(OPS["flash_attention"]),
    "linalg_eig": without_phases(OPS["linalg_eig"], 1),
    "linalg_eigh": without_phases(OPS["linalg_eigh"], 1),
    "linalg_lu_solve": with_int32(OPS["linalg_lu_solve"], 1),
    "linalg_svd": without_phases(OPS["linalg_svd"], 0, 2),
    "lu_unpack": with_int32(oplib.lu_unpack, 1),
    "native_batch_norm": first_of(OPS["native_batch_norm"]),
    **{
        name: OPS[name] for name in ("quantiles.Scalar", "quantiles.Tensor", "slopes.Scalar", "slopes.Tensor")
    },
}
# Places of arguments by which torch does not differentiate.
CONSTANTS: dict[str, tuple[int, ...]] = {
    "binary_cross_entropy": (2,),
    "binary_cross_entropy_with_logits": (2, 3),
    "cross_entropy": (2,),
    "fixed_batch_norm": (1, 2),
    "linalg_ldl_solve": (0, 2),
    "linalg_pinv_bounded": (2,),
    "multi_margin_loss": (4,),
    "nll_loss": (2,),
    **{f"sampled_max_pool{rank}d": (3,) for rank in (2, 3)},
    "soft_margin_loss": (1,),
    **{f"special_{name}": (0,) for name in ("spherical_bessel_j0", "bessel_j0", "bessel_j1", "airy_ai")},
    **{f"special_{name}": (0,) for name in POSITIVE_ONLY},
    **{f"special_{name}": (0,) for name in POLYNOMIALS},
}
# Ours alone: what subscripts are made of, and a backward that torch does not show.
WITHOUT_COUNTERPART = frozenset({"setitem", "flash_attention_backward"})


def find_torch(name: str) -> Function | None:
    """Returns what to call on torch beside an overload; None for what only oplib has."""
    row = ROW_OF[name]
    if row.op in WITHOUT_COUNTERPART:
        return None
    called = ON_TORCH.get(name) or ON_TORCH.get(row.op)
    return called or find_by_path(row.origin)


def find_by_path(path: str) -> Function | None:
    found: Any = torch
    for part in path.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def find_oplib(name: str) -> Function:
    """Returns what users call; an overload itself where that is not public."""
    row = ROW_OF[name]
    if row.op in ON_OPLIB:
        return ON_OPLIB[row.op]
    is_inner = row.op in ("index", "_index_put", "select", "stored", "embedding", "view")
    return OPS[name] if is_inner else UPCALLS[row.op]


def has_counterpart(name: str) -> bool:
    return find_torch(name) is not None
