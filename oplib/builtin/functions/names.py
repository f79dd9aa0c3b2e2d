"""Under which names made functions are found: pickle goes by them, and so does whoever reads a traceback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]

ROOT_IN_PLACE = (
    *("abs_", "acos_", "acosh_", "addmv_", "alpha_dropout_", "arccos_", "arccosh_", "arcsin_"),
    *("arcsinh_", "arctan_", "arctanh_", "asin_", "asinh_", "atan_", "atanh_", "ceil_", "celu_", "clamp_"),
    *("clamp_max_", "clamp_min_", "clip_", "conj_physical_", "cos_", "cosh_", "deg2rad_", "dropout_"),
    *("erf_", "erfc_", "exp2_", "exp_", "expm1_", "feature_alpha_dropout_", "feature_dropout_", "fill_"),
    *("fix_", "floor_", "frac_", "gcd_", "i0_", "index_put_", "lcm_", "ldexp_", "log10_", "log1p_", "log2_"),
    *("log_", "logit_", "nan_to_num_", "neg_", "negative_", "rad2deg_", "reciprocal_", "relu_", "round_"),
    *("rrelu_", "rsqrt_", "selu_", "sigmoid_", "sin_", "sinc_", "sinh_", "sqrt_", "square_", "tan_"),
    *("tanh_", "threshold_", "trunc_", "xlogy_", "zero_"),
)
"""The in-place forms that torch also has as functions at its root; of these oplib has those of its ops."""

NETWORK_IN_PLACE = (*("celu_", "elu_", "hardtanh_", "leaky_relu_", "relu_", "rrelu_", "selu_", "threshold_"),)
"""Likewise, in ``torch.nn.functional``."""


_SUBMODULES = ("linalg", "fft", "special")


def name_function(function: Function, name: str) -> Function:
    """Gives a made function the name under which it is public."""
    submodule = next((one for one in _SUBMODULES if name.startswith(f"{one}_")), "")
    function.__name__ = name
    # Where pickle finds it: somebody keeps an activation in a configuration, and sends that to a process.
    function.__qualname__ = name.removeprefix(f"{submodule}_") if submodule else name
    function.__module__ = f"oplib.{submodule}" if submodule else "oplib"
    return function


def name_method(function: Function, name: str, method: str = "") -> Function:
    """Gives a function that is public only as a method of Tensor the name under which it is found there.

    Args:
        function: the function.
        name: of its op.
        method: of the method, if that is another.
    """
    function.__name__ = name
    function.__qualname__ = f"Tensor.{method or name}"
    function.__module__ = "oplib"
    return function
