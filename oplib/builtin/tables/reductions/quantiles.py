"""Quantiles, with and without nan, as one program."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import Row
from oplib.builtin.shared_kernels.promotion import strong
from oplib.builtin.tables.pointwise.bounds import lerp
from oplib.library import Derivative

from .order import find_ranked, sort_indices

_NEIGHBOURS = {
    "linear": (lax.floor, lax.ceil),
    "midpoint": (lax.floor, lax.ceil),
    "lower": (lax.floor,),
    "higher": (lax.ceil,),
    "nearest": (jnp.round,),
}
WAYS = tuple(_NEIGHBOURS)


def _quantile(
    self: Any,
    q: Any,
    dim: int | None,
    keepdim: bool,
    *,
    interpolation: str,
    skips_nan: bool,
    is_cpu: bool = False,
) -> Any:
    axis = 0 if dim is None or not self.ndim else dim % self.ndim
    flat = jnp.ravel(self) if dim is None or not self.ndim else self
    items = jnp.moveaxis(flat, axis, 0)
    is_item = ~jnp.isnan(items)
    count = jnp.sum(is_item | (not skips_nan), 0, dtype=jnp.int32, keepdims=True)
    last = lax.convert_element_type(jnp.maximum(count - 1, 0), self.dtype)
    parts = lax.convert_element_type(q, self.dtype)
    ranks = lax.reshape(parts, (parts.size, *(1,) * (last.ndim - 1))) * last
    if not skips_nan:
        ranks = jnp.where(jnp.all(is_item, 0, keepdims=True), ranks, last)
    places = [choose(lax.stop_gradient(ranks)) for choose in _NEIGHBOURS[interpolation]]
    if is_cpu and parts.size == 1:
        find = partial(find_ranked, items, 0, bisects=True)
        positions = [find(place.astype("int32"))[None] for place in places]
    else:
        order = sort_indices(items, 0, descending=False, packs=is_cpu)  # nan is sorted last
        positions = [jnp.take_along_axis(order, place.astype("int32"), 0) for place in places]
    found = [jnp.take_along_axis(items, position, 0) for position in positions]
    weight = strong(0.5, ranks) if interpolation == "midpoint" else ranks - places[0]
    values = lerp(found[0], found[-1], weight) if len(found) > 1 else found[0]
    kept = [1 if place == axis or dim is None else size for place, size in enumerate(self.shape)]
    rest = kept if keepdim else items.shape[1:]
    return lax.reshape(values, (*parts.shape, *rest))


ROWS = tuple(
    Row(
        f"quantiles.{kind}(Tensor self, {kind} q, int? dim, bool keepdim, *, str interpolation, "
        "bool skips_nan) -> Tensor",
        _quantile,
        "values below which given parts of the items are",
        derivative=Derivative(derive=True, selects=True),  # it is not to search again
        operand=("q",) if kind == "Scalar" else (),
        dtypes="f",
        autocast="cpu float32",
        is_internal=True,
        source="torch.quantile",
        kernels=(("cpu", partial(_quantile, is_cpu=True)),),
    )
    for kind in ("Scalar", "Tensor")
)
