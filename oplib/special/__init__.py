"""Special functions under torch's names; some are at the root too, such as ``expit`` as ``sigmoid``.

Example:
    >>> import oplib
    >>> oplib.special.ndtr(oplib.tensor([0.0, 2.0]))
    tensor([0.5000, 0.9772])
"""

from __future__ import annotations

from oplib.builtin.public_functions.registry import FUNCTIONS, SPECIAL
from oplib.torch_names import make_lookups as _make_lookups

_AT_THE_ROOT = {  # the names at the root
    **{name: name for name in ("digamma", "erf", "erfc", "erfinv", "exp2", "expm1", "i0", "log1p")},
    **{name: name for name in ("log_softmax", "logit", "logsumexp", "polygamma", "round", "sinc", "softmax")},
    "xlogy": "xlogy",
    "expit": "sigmoid",
    "gammainc": "igamma",
    "gammaincc": "igammac",
    "gammaln": "lgamma",
    "modified_bessel_i0": "i0",
    "multigammaln": "mvlgamma",
    "psi": "digamma",
}
_FUNCTIONS = (
    SPECIAL.rename({name.removeprefix("special_"): name for name in SPECIAL})
    | SPECIAL.rename({"modified_bessel_i1": "special_i1"})
    | FUNCTIONS.rename(_AT_THE_ROOT)
)
__all__ = sorted(_FUNCTIONS)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables
__getattr__, __dir__ = _make_lookups(globals(), _FUNCTIONS)
