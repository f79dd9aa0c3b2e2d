"""The differences between torch and oplib on torch's own samples, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Difference:
    """One difference that is known.

    Attributes:
        entries: the names of the entries; ``*`` matches anything.
        text: a part of what :mod:`.checks` says of it.
        because: the reason.
    """

    entries: tuple[str, ...]
    text: str
    because: str


# Of these only dtypes and shapes are compared: the libraries draw other numbers, or the values are arbitrary.
RANDOM = (
    *("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal*", "uniform"),
    *("rand_like", "randn", "randn_like", "randint", "randint_like", "nn.functional.*dropout*"),
    *("empty", "empty_*", "new_empty*", "nn.functional.rrelu", "nn.functional.fractional_max_pool*"),
    *(
        "nn.functional.gumbel_softmax",
        "nn.functional.scaled_dot_product_attention",
        "svd_lowrank",
        "pca_lowrank",
    ),
    "nn.functional.multi_head_attention_forward",
)

NUMBERS = "an operand may be a number or an array here, also where torch asks for a Tensor"
OVERLAP = "torch refuses an out= that shares memory with an operand; here the result is complete before that"
TIES = "which of several equal items is found is not specified, and differs"
TRIANGLE = "torch gives a gradient to the triangle that is not read; here it is 0, as finite differences say"
KIND = "torch raises ValueError here, and RuntimeError for the same mistake in neighbouring functions"
LABELS = "both refuse it; the dtype of the labels is checked first here, and is wrong too"
VIEW = "the sample is a view, and its base is not given to oplib"
BRANCHES = "the logarithms differ by a multiple of 2 pi i, and their exponentials agree"
NOT_HERMITIAN = (
    "the sample is not Hermitian, and there torch's gradient is not that of the triangle that is read"
)
PLACES = "torch gives positions the dtype of the items, which rounds large ones; here they are ints"
BEHIND_SOFTMAX = "torch's gradient is right only behind log_softmax; here it is the derivative"
WITH_DERIVATIVE = "torch has no derivative of the in-place form"
DIGITS = (
    "of doubles from 4 to 15 torch's functions keep 8 digits; tests of kernels/bessel compare with mpmath"
)
WRONG_THERE = "torch's gradient fails torch's own gradcheck; that of oplib passes"
OF_METHOD = "the samples are those of a method; the function of oplib takes them in this order too"

DIFFERENCES = (
    Difference(("*",), "must be Tensor, not int; oplib raised nothing", NUMBERS),
    Difference(("*",), "invalid combination of arguments - got (int, int)", NUMBERS),
    Difference(("*",), "invalid combination of arguments - got (int, Tensor)", NUMBERS),
    Difference(("__r*__",), "doesn't apply to a 'int' object", NUMBERS),
    Difference(("*",), "the derivative for 'inplace version of", WITH_DERIVATIVE),
    Difference(("*",), "to a single memory location", OVERLAP),
    Difference(
        ("quantile", "nanquantile"),
        "that of oplib alone requires grad",
        "the weight of a neighbour is saved as a float, which does not say that it was found by counting",
    ),
    Difference(
        ("abs",), "In-place abs is not supported for complex", "the magnitudes are written as complex numbers"
    ),
    Difference(("normal.in_place",), "normal() received an invalid combination", OF_METHOD),
    Difference(("normal",), "normal_(): argument 'mean'", "a Tensor of one item is a number here"),
    Difference(("cholesky_inverse", "cholesky_solve"), "gradient", TRIANGLE),
    Difference(("sort", "argsort"), "oplib np.int64(0) (", TIES),
    Difference(("kthvalue", "topk", "mode"), "np.int64", TIES),
    Difference(("logaddexp", "logcumsumexp"), "np.complex128", BRANCHES),
    Difference(("as_strided.partial_views",), "", VIEW),
    Difference(("nn.functional.adaptive_*",), "Input dimension should be", KIND),
    Difference(("nn.functional.*margin_loss",), "expected integers for labels", LABELS),
    Difference(("nn.functional.unfold",), "not implemented for bool", "windows of bools are not computed"),
    Difference(("arange",), "arange() got an unexpected", "arange takes no out="),
    Difference(
        ("cat",), "resize storage that is not resizable", "out= of another shape takes that of the result"
    ),
    Difference(("special.bessel_*",), "torch gave np.float64", DIGITS),
    Difference(("as_strided_scatter",), "gradient", WRONG_THERE),
    Difference(("svd_lowrank", "pca_lowrank"), "got multiple values for argument", "no call of either"),
    Difference(("masked.argmax", "masked.argmin"), "oplib int64", PLACES),
    Difference(("nn.functional.ctc_loss",), "gradient 0", BEHIND_SOFTMAX),
    Difference(("linalg.pinv.hermitian",), "gradient", NOT_HERMITIAN),
)


def find_difference(entry: str, found: str) -> Difference | None:
    """Returns the known difference that explains what a check has found."""
    matching = (one for one in DIFFERENCES if one.text in found)
    return next((one for one in matching if any(fnmatchcase(entry, name) for name in one.entries)), None)


def is_random(entry: str) -> bool:
    """Tells whether only dtypes and shapes are compared."""
    return any(fnmatchcase(entry, name) for name in RANDOM)
