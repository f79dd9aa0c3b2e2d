"""The known failures of the grid, with reasons. A listed sample that passes fails the tests."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

import jax


@dataclass(frozen=True)
class ExpectedFailure:
    """Samples of an op that do not pass a check.

    Attributes:
        op: the overload, without the namespace; ``*`` matches anything, also in check and samples.
        check: the name of the check.
        because: the reason, for a developer who wants to fix it.
        samples: the samples, as they are printed.
    """

    op: str
    check: str
    because: str
    samples: str = "*"


TORCH_LACKS = "torch has no derivative here, and raises; here it is derived, and right by finite differences"
TORCH_WITHOUT_OUT = (
    "torch takes no out= in this overload, only in others of the op; here every overload takes it"
)
TYPE_ERROR_OF_CAT = (
    "torch raises TypeError of an out= that cannot hold the result, by cat alone; here RuntimeError"
)
PADDING = "the gradient of the row at padding_idx is 0 by torch's contract, though results depend on it"
SHORT_INDEX = "torch's backward fails where index is smaller than src; here items beyond it have gradient 0"
LEADING_ONES = (
    "copy_ takes leading axes of size 1, as an assignment to items does; torch's copy_ refuses them"
)
SINGLE_SIXTH = "torch multiplies its gradient with a sixth in single precision"
NO_AXES = "torch takes a complex number alone, where there is nothing to compare; here complex is refused"
OF_EQUALS = "what is most frequent jumps when one of the equals moves; the gradient is torch's, to its place"
CUT = "this is the op whose gradient is said to be 0 where the function's is not"
WITH_SOFTMAX = "torch's gradient is that by what log_softmax is taken of, and only after that the derivative"
LARGEST_OF_COMPLEX = (
    "torch takes infinity as a power; here it asks for the largest, which complex numbers lack"
)
VALUE_ERROR_OF_DTYPE = (
    "torch raises ValueError of a dtype, by this op alone; here UnsupportedDtypeError as by all ops"
)
ERF_OF_JAX = (
    "JAX 0.12 itself cannot differentiate erf and erfc in shard_map: the numbers in their rule do not vary"
)
EMPTY_IN_SHARD_MAP = "XLA removes the empty operands of a body of shard_map, and then misses them"
SWAPPED = "torch's gradient is that of the items that src replaces, and 0 for those that stay"
LOST_TANGENT = "torch drops the tangents of this product without a word"

EXPECTED_FAILURES: tuple[ExpectedFailure, ...] = (
    ExpectedFailure("remainder.Scalar_Tensor", "torch: gradient", TORCH_LACKS),
    ExpectedFailure("remainder.Scalar_Tensor", "torch: forward mode", TORCH_LACKS),
    ExpectedFailure("remainder.Scalar_Tensor", "torch: out", TORCH_WITHOUT_OUT),
    ExpectedFailure("fmod.Scalar_Tensor", "torch: out", TORCH_WITHOUT_OUT),
    ExpectedFailure("bitwise_*.Scalar_Tensor", "torch: out", TORCH_WITHOUT_OUT),
    ExpectedFailure("copy", "torch: in place", LEADING_ONES, "f[2, 3], f[1, 2, 3]"),
    ExpectedFailure("as_strided_scatter", "torch: gradient", SWAPPED),
    ExpectedFailure("as_strided_scatter", "torch: complex gradient", SWAPPED),
    ExpectedFailure("cdist", "torch: forward mode", TORCH_LACKS),
    ExpectedFailure("pdist", "torch: forward mode", TORCH_LACKS),
    ExpectedFailure("grid_sample", "torch: forward mode", TORCH_LACKS),
    ExpectedFailure("embedding_bag", "torch: forward mode", TORCH_LACKS),
    ExpectedFailure("lp_pool2d", "torch: complex values", LARGEST_OF_COMPLEX, "*, inf, *"),
    ExpectedFailure("affine_grid", "torch: complex values", VALUE_ERROR_OF_DTYPE),
    ExpectedFailure("special_zeta.*Tensor", "torch: forward mode", TORCH_LACKS),
    ExpectedFailure("igamma*", "torch: forward mode", TORCH_LACKS),
    ExpectedFailure("igamma*", "torch: gradient", "torch takes lgamma of integers in single precision"),
    ExpectedFailure("ctc_loss", "torch: gradient", WITH_SOFTMAX),
    ExpectedFailure("ctc_loss", "torch: forward mode", TORCH_LACKS),
    ExpectedFailure("index_reduce", "torch: forward mode", TORCH_LACKS),
    ExpectedFailure("nonzero_static", "torch: forward mode", TORCH_LACKS),
    ExpectedFailure(
        "index_reduce",
        "torch: complex values",
        "torch takes complex numbers with include_self alone; here without it too",
        "*, include_self=False",
    ),
    ExpectedFailure("multi_margin_loss", "torch: forward mode", TORCH_LACKS),
    ExpectedFailure("multilabel_margin_loss", "torch: forward mode", TORCH_LACKS),
    *(ExpectedFailure(op, "torch: out", TYPE_ERROR_OF_CAT) for op in ("cat", "*stack")),
    ExpectedFailure("addbmm", "torch: out", "torch resizes this out= without the warning of its other ops"),
    *(ExpectedFailure(op, "torch: complex values", NO_AXES, "f[], 0") for op in ("cummax", "cummin")),
    *(
        ExpectedFailure("mode", check, OF_EQUALS, "f[2, 4]")
        for check in ("gradient", "second gradient", "forward mode", "jit", "vmap", "shard_map")
    ),
    *(
        ExpectedFailure("detach", check, CUT, sample)
        for check in ("gradient", "forward mode")
        for sample in ("f[]", "f[3]", "f[2, 3]")
    ),
    *(ExpectedFailure(op, "torch: out", TORCH_WITHOUT_OUT) for op in ("median", "nanmedian")),
    ExpectedFailure("hardsigmoid", "torch: gradient", SINGLE_SIXTH),
    ExpectedFailure("hardsigmoid", "torch: forward mode", SINGLE_SIXTH),
    *(
        ExpectedFailure("embedding.padded", check, PADDING, "f[4, 2], i[2, 3], 1")
        for check in ("gradient", "forward mode", "jit", "vmap", "shard_map", "torch: forward mode")
    ),
    ExpectedFailure("scatter.src", "torch: *gradient", SHORT_INDEX),
    ExpectedFailure("scatter_add", "torch: *gradient", SHORT_INDEX, "f[2, 3], 0, i[1, 3], f[2, 3]"),
    ExpectedFailure("scatter_reduce.two", "torch: forward mode", LOST_TANGENT, "* prod*"),
    ExpectedFailure(
        "nanmean", "torch: out", "torch refuses an integer out= with NotImplementedError, here as elsewhere"
    ),
    ExpectedFailure("where.Scalar*", "torch: out", TORCH_WITHOUT_OUT),
    *(
        ExpectedFailure(op, "shard_map", EMPTY_IN_SHARD_MAP, "f[0, 3], f[3]")
        for op in ("copysign.Tensor", "fmax", "fmin", "logaddexp", "logaddexp2", "xlogy.Tensor")
    ),
    *(
        [
            ExpectedFailure(
                "digamma", "shard_map", "the rule of JAX 0.10 for polygamma of no numbers", "f[2, 0]"
            )
        ]
        if jax.__version_info__ < (0, 12)
        else []
    ),
    *(
        ExpectedFailure(op, "shard_map", ERF_OF_JAX, samples)
        for op, samples in (
            ("erf", "*"),
            ("erfc", "*"),
            ("special_ndtr", "*"),
            ("special_erfcx", "*"),
            ("gelu", "f[2, 3]"),
        )
        if jax.__version_info__ >= (0, 12)
    ),
)


def find_expected(op: str, check: str, sample: str) -> ExpectedFailure | None:
    """Returns the entry that matches a sample."""
    for entry in EXPECTED_FAILURES:
        given = ((op, entry.op), (check, entry.check), (sample, escape(entry.samples)))
        if all(fnmatchcase(text, pattern) for text, pattern in given):
            return entry
    return None


def escape(pattern: str) -> str:
    """Escapes brackets, which belong to a printed sample and are no character class."""
    return pattern.replace("[", "[[]")
