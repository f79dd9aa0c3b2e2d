# Made from the tables of oplib/builtin by `make generate`.
from typing import Any, TypeVar, overload

from jax import Array
from oplib.tensor import Tensor
from oplib.builtin.functions.registry import digamma as digamma
from oplib.builtin.functions.registry import erf as erf
from oplib.builtin.functions.registry import erfc as erfc
from oplib.builtin.functions.registry import erfinv as erfinv
from oplib.builtin.functions.registry import exp2 as exp2
from oplib.builtin.functions.registry import sigmoid as expit
from oplib.builtin.functions.registry import expm1 as expm1
from oplib.builtin.functions.registry import igamma as gammainc
from oplib.builtin.functions.registry import igammac as gammaincc
from oplib.builtin.functions.registry import lgamma as gammaln
from oplib.builtin.functions.registry import i0 as i0
from oplib.builtin.functions.registry import log1p as log1p
from oplib.builtin.functions.registry import log_softmax as log_softmax
from oplib.builtin.functions.registry import logit as logit
from oplib.builtin.functions.registry import logsumexp as logsumexp
from oplib.builtin.functions.registry import i0 as modified_bessel_i0
from oplib.builtin.functions.registry import mvlgamma as multigammaln
from oplib.builtin.functions.registry import polygamma as polygamma
from oplib.builtin.functions.registry import digamma as psi
from oplib.builtin.functions.registry import round as round
from oplib.builtin.functions.registry import sinc as sinc
from oplib.builtin.functions.registry import softmax as softmax
from oplib.builtin.functions.registry import xlogy as xlogy

_TensorOrArray = TypeVar("_TensorOrArray", Tensor, Array)

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]

@overload
def airy_ai(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def airy_ai(input: Any, *, out: Any = ...) -> Any: ...
@overload
def bessel_j0(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def bessel_j0(input: Any, *, out: Any = ...) -> Any: ...
@overload
def bessel_j1(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def bessel_j1(input: Any, *, out: Any = ...) -> Any: ...
@overload
def bessel_y0(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def bessel_y0(input: Any, *, out: Any = ...) -> Any: ...
@overload
def bessel_y1(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def bessel_y1(input: Any, *, out: Any = ...) -> Any: ...
@overload
def chebyshev_polynomial_t(input: Tensor, n: Any, *, out: Any = ...) -> Tensor: ...
@overload
def chebyshev_polynomial_t(input: Any, n: Any, *, out: Any = ...) -> Any: ...
@overload
def chebyshev_polynomial_u(input: Tensor, n: Any, *, out: Any = ...) -> Tensor: ...
@overload
def chebyshev_polynomial_u(input: Any, n: Any, *, out: Any = ...) -> Any: ...
@overload
def chebyshev_polynomial_v(input: Tensor, n: Any, *, out: Any = ...) -> Tensor: ...
@overload
def chebyshev_polynomial_v(input: Any, n: Any, *, out: Any = ...) -> Any: ...
@overload
def chebyshev_polynomial_w(input: Tensor, n: Any, *, out: Any = ...) -> Tensor: ...
@overload
def chebyshev_polynomial_w(input: Any, n: Any, *, out: Any = ...) -> Any: ...
@overload
def entr(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def entr(input: Any, *, out: Any = ...) -> Any: ...
@overload
def erfcx(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def erfcx(input: Any, *, out: Any = ...) -> Any: ...
@overload
def hermite_polynomial_h(input: Tensor, n: Any, *, out: Any = ...) -> Tensor: ...
@overload
def hermite_polynomial_h(input: Any, n: Any, *, out: Any = ...) -> Any: ...
@overload
def hermite_polynomial_he(input: Tensor, n: Any, *, out: Any = ...) -> Tensor: ...
@overload
def hermite_polynomial_he(input: Any, n: Any, *, out: Any = ...) -> Any: ...
@overload
def i0e(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def i0e(input: Any, *, out: Any = ...) -> Any: ...
@overload
def i1(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def i1(input: Any, *, out: Any = ...) -> Any: ...
@overload
def i1e(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def i1e(input: Any, *, out: Any = ...) -> Any: ...
@overload
def laguerre_polynomial_l(input: Tensor, n: Any, *, out: Any = ...) -> Tensor: ...
@overload
def laguerre_polynomial_l(input: Any, n: Any, *, out: Any = ...) -> Any: ...
@overload
def legendre_polynomial_p(input: Tensor, n: Any, *, out: Any = ...) -> Tensor: ...
@overload
def legendre_polynomial_p(input: Any, n: Any, *, out: Any = ...) -> Any: ...
@overload
def log_ndtr(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def log_ndtr(input: Any, *, out: Any = ...) -> Any: ...
@overload
def modified_bessel_i1(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def modified_bessel_i1(input: Any, *, out: Any = ...) -> Any: ...
@overload
def modified_bessel_k0(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def modified_bessel_k0(input: Any, *, out: Any = ...) -> Any: ...
@overload
def modified_bessel_k1(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def modified_bessel_k1(input: Any, *, out: Any = ...) -> Any: ...
@overload
def ndtr(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def ndtr(input: Any, *, out: Any = ...) -> Any: ...
@overload
def ndtri(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def ndtri(input: Any, *, out: Any = ...) -> Any: ...
@overload
def scaled_modified_bessel_k0(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def scaled_modified_bessel_k0(input: Any, *, out: Any = ...) -> Any: ...
@overload
def scaled_modified_bessel_k1(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def scaled_modified_bessel_k1(input: Any, *, out: Any = ...) -> Any: ...
@overload
def shifted_chebyshev_polynomial_t(input: Tensor, n: Any, *, out: Any = ...) -> Tensor: ...
@overload
def shifted_chebyshev_polynomial_t(input: Any, n: Any, *, out: Any = ...) -> Any: ...
@overload
def shifted_chebyshev_polynomial_u(input: Tensor, n: Any, *, out: Any = ...) -> Tensor: ...
@overload
def shifted_chebyshev_polynomial_u(input: Any, n: Any, *, out: Any = ...) -> Any: ...
@overload
def shifted_chebyshev_polynomial_v(input: Tensor, n: Any, *, out: Any = ...) -> Tensor: ...
@overload
def shifted_chebyshev_polynomial_v(input: Any, n: Any, *, out: Any = ...) -> Any: ...
@overload
def shifted_chebyshev_polynomial_w(input: Tensor, n: Any, *, out: Any = ...) -> Tensor: ...
@overload
def shifted_chebyshev_polynomial_w(input: Any, n: Any, *, out: Any = ...) -> Any: ...
@overload
def spherical_bessel_j0(input: _TensorOrArray, *, out: Any = ...) -> _TensorOrArray: ...
@overload
def spherical_bessel_j0(input: Any, *, out: Any = ...) -> Any: ...
@overload
def xlog1py(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
@overload
def xlog1py(input: Any, other: Any, *, out: Any = ...) -> Any: ...
@overload
def zeta(input: Tensor, other: Any, *, out: Any = ...) -> Tensor: ...
@overload
def zeta(input: Any, other: Any, *, out: Any = ...) -> Any: ...
