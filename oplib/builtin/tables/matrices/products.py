"""Products of vectors and matrices, and sums with such products."""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
from jax import lax

from oplib.builtin.rows.row import NetworkRow, ProductRow, Row
from oplib.builtin.shared_kernels.dims import find_dim
from oplib.builtin.shared_kernels.promotion import (
    broadcast,
    broadcast_batches,
    check_dtypes,
    compute_dtype,
    in_single,
    is_integral,
    promote_operands,
    strong,
    sum_items,
)
from oplib.builtin.tables.reductions.moments import (
    compute_distances,
    compute_distances_by_rows,
    multiply_distances,
)
from oplib.errors import ArgumentError, ArgumentValueError, describe
from oplib.tensor import default_int_dtype
from oplib.tensor.dtypes import names as dtypes

from .matmul import broadcast_to_product, check_factors

# Products ---------------------------------------------------------------------------------------------------


def _check_ranks(ranks: Sequence[int], *operands: Any) -> None:
    check_dtypes(*operands)
    if tuple(operand.ndim for operand in operands) != tuple(ranks):
        raise ArgumentError(
            f"expected operands with {', '.join(map(str, ranks))} axes", "Reshape them, or use matmul."
        )


def _multiply(x: Any, y: Any) -> Any:
    check_factors(x, y)
    if x.ndim == 3 == y.ndim and x.shape[0] != y.shape[0]:
        raise ArgumentError(
            "the shapes cannot be multiplied: the first axes must have the same size",
            "Use matmul for batches that broadcast.",
        )
    return jnp.matmul(x, y)


def _product(*ranks: int) -> Any:
    def kernel(self: Any, other: Any) -> Any:
        _check_ranks(ranks, self, other)
        return _multiply(self, other)

    return kernel


def _vdot(self: Any, other: Any) -> Any:
    _check_ranks((1, 1), self, other)
    return _multiply(jnp.conj(self), other)


def _inner(self: Any, other: Any) -> Any:
    check_dtypes(self, other)
    if not self.ndim or not other.ndim:
        return self * other
    if self.shape[-1] != other.shape[-1]:
        raise ArgumentError("the last axes must have the same size", "Transpose one of them.")
    return jnp.inner(self, other)


def _outer(self: Any, vec2: Any) -> Any:
    if self.ndim != 1 or vec2.ndim != 1:
        raise ArgumentError("expected two vectors", "Flatten them.")
    dtype = promote_operands(self, vec2)
    x, y = (lax.convert_element_type(array, dtype) for array in (self, vec2))
    return lax.expand_dims(x, (1,)) * lax.expand_dims(y, (0,))


def _kron(self: Any, other: Any) -> Any:
    dtype = promote_operands(self, other)
    own = dtypes.int8 if dtype == dtypes.bool else dtype
    product = jnp.kron(*(lax.convert_element_type(array, own) for array in (self, other)))
    return lax.convert_element_type(product, dtype)


def _tensordot(self: Any, other: Any, dims_self: Sequence[int], dims_other: Sequence[int]) -> Any:
    check_dtypes(self, other)
    left = [find_dim(self.ndim, dim) for dim in dims_self]
    right = [find_dim(other.ndim, dim) for dim in dims_other]
    pairs = list(zip(left, right, strict=False))
    self = _sum_over(self, [mine for mine, its in pairs if other.shape[its] == 1])
    other = _sum_over(other, [its for mine, its in pairs if self.shape[mine] == 1])
    if [self.shape[dim] for dim in left] != [other.shape[dim] for dim in right]:
        raise ArgumentError("contracted dimensions need to match", "Name dims of the same sizes.")
    return jnp.tensordot(self, other, axes=(left, right))


def _sum_over(array: Any, axes: Sequence[int]) -> Any:
    """Sums over axes that meet a size of 1: the other operand would be repeated there."""
    longer = tuple(axis for axis in axes if array.shape[axis] != 1)
    return sum_items(array, longer, keepdims=True) if longer else array


_IN_EQUATIONS = frozenset(string.ascii_letters + " .,->")


def _einsum(equation: str, tensors: Sequence[Any]) -> Any:
    check_dtypes(*tensors)
    wrong = set(equation) - _IN_EQUATIONS
    if wrong:
        raise ArgumentError(
            f"the subscripts are letters, and {min(wrong)!r} is none", "Write one letter for each axis."
        )
    try:
        _check_diagonals(equation, tensors)
        return jnp.einsum(equation, *tensors)
    except (ValueError, TypeError, IndexError) as error:
        raise ArgumentError(
            f"the equation does not fit the operands: {str(error).splitlines()[0].rstrip('.')}",
            "Write one letter for each axis, of one size everywhere.",
        ) from None


def _multi_dot(tensors: Sequence[Any]) -> Any:
    check_dtypes(*tensors)
    if len(tensors) < 2:
        raise ArgumentError(f"expected at least 2 tensors but got {len(tensors)}", "Give them in one list.")
    ranks = [tensor.ndim for tensor in tensors]
    if {*ranks[1:-1]} - {2} or {ranks[0], ranks[-1]} - {1, 2}:
        raise ArgumentError("expected matrices; the first and the last may be vectors", "Reshape them.")
    for first, second in pairwise(tensors):
        check_factors(first, second)
    return jnp.linalg.multi_dot(tensors)


def _check_diagonals(equation: str, tensors: Sequence[Any]) -> None:
    """Raises if a repeated letter of one operand has two sizes, which JAX would broadcast."""
    for term, tensor in zip(equation.replace(" ", "").split("->")[0].split(","), tensors, strict=False):
        head, _, tail = term.partition("...")
        sizes = {*zip(head, tensor.shape, strict=False), *zip(tail[::-1], tensor.shape[::-1], strict=False)}
        if len(sizes) > len({letter for letter, _ in sizes}):
            raise ValueError(f"a letter of {term!r} has two sizes in {describe(tensor)}")


def _cross(self: Any, other: Any, dim: int) -> Any:
    check_dtypes(self, other)
    axis = find_dim(self.ndim, dim)
    if self.ndim != other.ndim:
        raise ArgumentError("inputs must have the same number of dimensions", "Add dims with unsqueeze.")
    if not self.ndim or (self.shape[axis], other.shape[axis]) != (3, 3):
        raise ArgumentError(
            f"inputs dimension {dim} must have length 3", "Name the dim that holds the vectors."
        )
    return jnp.cross(*broadcast([self, other]), axis=axis)


def _trace(self: Any) -> Any:
    if self.ndim != 2:
        raise ArgumentError("expected a matrix", "Use diagonal and sum for others.")
    return jnp.trace(self, dtype=default_int_dtype() if is_integral(self.dtype) else None)


PRODUCTS = (
    ProductRow(
        "bmm(Tensor self, Tensor mat2) -> Tensor",
        _product(3, 3),
        "products of two batches of matrices",
        autocast="low",
    ),
    ProductRow(
        "mv(Tensor self, Tensor vec) -> Tensor",
        _product(2, 1),
        "product of a matrix and a vector",
        autocast="cuda low",
    ),
    ProductRow(
        "dot(Tensor self, Tensor tensor) -> Tensor",
        _product(1, 1),
        "product of two vectors",
        autocast="cuda widest",
    ),
    ProductRow(
        "vdot(Tensor self, Tensor other) -> Tensor",
        _vdot,
        "product of two vectors, the first conjugated",
        autocast="cuda widest",
    ),
    ProductRow(
        "inner(Tensor self, Tensor other) -> Tensor",
        _inner,
        "sums of products over the last axis of both tensors",
        autocast="cpu low, cuda widest",
    ),
    Row(
        "outer(Tensor self, Tensor vec2) -> Tensor",
        _outer,
        "outer product of two vectors",
        out=True,
        aliases=("ger",),
    ),
    Row("kron(Tensor self, Tensor other) -> Tensor", _kron, "Kronecker product", out=True),
    Row(
        "tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
        _tensordot,
        "sums of products over given dims of both tensors",
        dtypes="ihfc",
        autocast="cpu low, cuda widest",
    ),
    Row(
        "einsum(str equation, Tensor[] tensors) -> Tensor",
        _einsum,
        "sums of products along the axes of an equation",
        autocast="low",
    ),
    ProductRow(
        "linalg_multi_dot(Tensor[] tensors) -> Tensor",
        _multi_dot,
        "product of several matrices, in the order with the fewest multiplications",
        autocast="low",
    ),
    Row(
        "linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
        lambda self, other, *, dim: _cross(self, other, dim),
        "cross product along a dim",
        dtypes="ihfc",
        aliases=("cross",),
        autocast="cuda widest",
    ),
    Row("trace(Tensor self) -> Tensor", _trace, "sum of the diagonal", dtypes="ihfc", autocast="cpu float32"),
)

# Sums with products -----------------------------------------------------------------------------------------


def _add_product(multiply: Any, self: Any, first: Any, second: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Computes ``beta * self + alpha * product``."""
    check_dtypes(self, first, second)
    if (
        multiply is _outer
        and is_integral(self.dtype)
        and not (is_integral(beta.dtype) and is_integral(alpha.dtype))
    ):
        raise ArgumentError(
            "for integral input tensors, beta and alpha must not be floating point numbers", "Give integers."
        )
    product = multiply(first, second)
    own = compute_dtype(product.dtype, (product, beta, alpha))
    x = lax.convert_element_type(broadcast_to_product("tensor", self, product), own)
    y = lax.convert_element_type(product, own)
    scale, factor = (lax.convert_element_type(array, own) for array in (beta, alpha))
    is_off = scale == strong(0, scale)  # then self is not read, not even its nan
    kept = jnp.where(lax.broadcast(is_off, x.shape), strong(0, x), x * lax.broadcast(scale, x.shape))
    return lax.convert_element_type(kept + y * lax.broadcast(factor, y.shape), product.dtype)


def _summed(x: Any, y: Any) -> Any:
    _check_ranks((3, 3), x, y)
    return sum_items(_multiply(x, y), (0,))


def _added(op: str, names: str, multiply: Any, doc: str, **facts: Any) -> Row:
    first, second = names.split()
    return Row(
        f"{op}(Tensor self, Tensor {first}, Tensor {second}, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        partial(_add_product, multiply),
        f"beta * self + alpha * {doc}",
        operand=("beta", "alpha"),
        in_place=True,
        dtypes="bihfc" if op == "addr" else "ihfc",
        out=True,
        **facts,
    )


SUMS_OF_PRODUCTS = (
    _added("addmm", "mat1 mat2", _product(2, 2), "mat1 @ mat2", autocast="low"),
    _added(
        "addmv",
        "mat vec",
        _product(2, 1),
        "mat @ vec",
        in_place_functions=("addmv_",),
        autocast="cuda low",
    ),
    _added("addr", "vec1 vec2", _outer, "outer(vec1, vec2)", autocast="cuda low"),
    _added("baddbmm", "batch1 batch2", _product(3, 3), "bmm(batch1, batch2)", autocast="low"),
    _added(
        "addbmm",
        "batch1 batch2",
        _summed,
        "the sum of bmm(batch1, batch2)",
        enlarges=True,
        autocast="low",
    ),
)

# Layers -----------------------------------------------------------------------------------------------------


def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    check_dtypes(input, weight, bias)
    if weight.ndim == 2 and input.shape[-1:] not in ((), weight.shape[1:]):
        raise ArgumentError(
            f"the input has {input.shape[-1]} features, and the weight {describe(weight)} takes "
            f"{weight.shape[1]}",
            "Give a weight of shape [out_features, in_features].",
        )
    product = _multiply(input, jnp.swapaxes(weight, 0, 1) if weight.ndim == 2 else weight)
    return product if bias is None else product + broadcast_to_product("bias", bias, product)


def _bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    check_dtypes(input1, input2, weight, bias)
    if weight.ndim != 3 or (input1.shape[-1], input2.shape[-1]) != weight.shape[1:]:
        raise ArgumentError(
            "the inputs do not fit the weight", "Give inputs whose last axes are the last two of the weight."
        )
    if input1.shape[:-1] != input2.shape[:-1]:
        raise ArgumentError(
            "the inputs must have the same sizes except in the last axis", "Reshape one of them."
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ArgumentError(
            "bias size does not match weight size", "Give one number for each row of the weight."
        )
    product = jnp.einsum("...i,oij,...j->...o", input1, weight, input2)
    return product if bias is None else product + broadcast_to_product("bias", bias, product)


_MODES_OF_CDIST = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)
_MANY_ROWS = 25  # as in torch


def _cdist(
    x1: Any, x2: Any, p: float = 2, compute_mode: str = _MODES_OF_CDIST[0], *, on_cpu: bool = False
) -> Any:
    """Computes distances; the gradient of a distance of 0 is 0, not nan."""
    if compute_mode not in _MODES_OF_CDIST:
        raise ArgumentValueError(
            f"{compute_mode!r} is not a valid value for compute_mode",
            f"Give one of {', '.join(map(repr, _MODES_OF_CDIST))}.",
        )
    check_dtypes(x1, x2)
    if min(x1.ndim, x2.ndim) < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ArgumentError(
            "the tensors need at least two axes, and the same number of columns", "Reshape one of them."
        )
    if p < 0:
        raise ArgumentError("only supports non-negative p", "Give 0 or more.")
    by_differences = compute_distances_by_rows if on_cpu else compute_distances
    are_many = max(x1.shape[-2], x2.shape[-2]) > _MANY_ROWS
    multiplies = on_cpu and (are_many, True, False)[_MODES_OF_CDIST.index(compute_mode)]
    compute = multiply_distances if multiplies and p == 2 else partial(by_differences, order=p)
    return in_single(compute)(*broadcast_batches(x1, x2))


LAYERS = (
    NetworkRow(
        "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
        _linear,
        "input @ weight.T + bias",
        dtypes="ihfc",
        autocast="low",
    ),
    NetworkRow(
        "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
        _bilinear,
        "input1 @ weight[k] @ input2 + bias[k] for each k",
        dtypes="ihfc",
        autocast="cuda widest",
    ),
    Row(
        f"cdist(Tensor x1, Tensor x2, float p=2., str compute_mode={_MODES_OF_CDIST[0]!r}) -> Tensor",
        _cdist,
        "distances between all pairs of rows",
        kernels=(("cpu", partial(_cdist, on_cpu=True)),),
        dtypes="hf",
        autocast="float32",
    ),
)

ROWS = (*PRODUCTS, *SUMS_OF_PRODUCTS, *LAYERS)
