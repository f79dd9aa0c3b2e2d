"""Special functions under torch's names; some are at the root too, such as ``expit`` as ``sigmoid``.

Example:
    >>> import oplib
    >>> oplib.special.ndtr(oplib.tensor([0.0, 2.0]))
    tensor([0.5000, 0.9772])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oplib.builtin.functions.registry import FUNCTIONS, SPECIAL

_PREFIX = "special_"
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
_OTHERWISE_NAMED = {"modified_bessel_i1": "i1"}
__all__ = sorted({*_AT_THE_ROOT, *_OTHERWISE_NAMED, *(name.removeprefix(_PREFIX) for name in SPECIAL)})  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]  from the tables


def __getattr__(name: str) -> Callable[..., Any]:
    """Returns the function of an op, which is made at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _AT_THE_ROOT:
        function = FUNCTIONS[_AT_THE_ROOT[name]]
    else:
        function = SPECIAL[f"{_PREFIX}{_OTHERWISE_NAMED.get(name, name)}"]
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
