"""Functions of ops that torch calls in several forms: which overload the arguments that are given mean."""

from __future__ import annotations

from functools import partial
from typing import Any

from oplib.builtin.registration import make_results
from oplib.builtin.rows.choice import OverloadChoice
from oplib.errors import ArgumentTypeError, describe
from oplib.library.autocast.casts import call_in_float32
from oplib.library.dispatch.inlined_overloads import Branch, when_tensor
from oplib.tensor import Tensor
from oplib.tensor.dtypes.rules import COMPLEX

from .operands import Chooser, Overloads, take_operand


def _refuse_keepdim(name: str, keepdim: Any) -> ArgumentTypeError:
    """Makes the error of a call that keeps a dim and names none."""
    return ArgumentTypeError(
        f"{name}: argument 'keepdim' goes with a dim. Got keepdim={describe(keepdim)} and no dim. Name the "
        "dim."
    )


def choose_extremum(name: str, overloads: Overloads) -> OverloadChoice:
    """Makes ``max(input)``, ``max(input, dim, keepdim)`` and ``max(input, other)``, or ``min``."""
    whole, along, pair = (overloads[f"{name}{kind}"] for kind in ("", ".dim", ".other"))
    results = make_results(along._schema)
    assert results is not None

    def function(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        if isinstance(dim, int):
            return results(*along.call(input, dim, keepdim))
        if keepdim is not False:
            raise _refuse_keepdim(name, keepdim)
        if dim is None and other is None:
            return whole.call(input)
        return pair.call(input, take_operand(dim if other is None else other))

    return OverloadChoice(function, Branch("", whole, (0,)), Branch(when_tensor(1), pair, (0, 1)))


def choose_median(name: str, overloads: Overloads) -> OverloadChoice:
    """Makes ``median(input)`` and ``median(input, dim, keepdim)``, or ``nanmedian``."""
    whole, along = overloads[name], overloads[f"{name}.dim"]
    results = make_results(along._schema)
    assert results is not None

    def function(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None and keepdim is not False:
            raise _refuse_keepdim(name, keepdim)
        return whole.call(input) if dim is None else results(*along.call(input, dim, keepdim))

    return OverloadChoice(function)


def choose_prod(overloads: Overloads) -> OverloadChoice:
    """Makes ``prod(input, *, dtype)`` and ``prod(input, dim, keepdim, *, dtype)``."""
    whole, along = overloads["prod"], overloads["prod.dim_int"]

    def function(input: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        if dim is None:
            if keepdim is not False:
                raise _refuse_keepdim("prod", keepdim)
            return whole.call(input, dtype=dtype)
        return along.call(input, dim, keepdim, dtype=dtype)

    return OverloadChoice(function)


def choose_moment(name: str, overloads: Overloads) -> OverloadChoice:
    """Makes ``var(input, dim=None, unbiased=None, keepdim=False, *, correction=None)`` and the like.

    Torch's older form has ``unbiased`` in the place of ``dim`` where all axes are meant.
    """
    overload = overloads[name]

    def function(
        input: Any,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if unbiased is not None:
            if correction is not None:
                raise ArgumentTypeError(
                    "only one of unbiased and correction can be given",
                    "Give correction, of which unbiased=True is 1.",
                )
            correction = int(unbiased)
        return overload.call(input, dim, correction=correction, keepdim=keepdim)

    return OverloadChoice(function)


def choose_detach(overloads: Overloads) -> OverloadChoice:
    """Makes ``detach(input)``: of a Tensor the box, since the result shares its storage."""
    on_arrays = overloads["detach"]

    def function(input: Any) -> Any:
        return input.detach() if isinstance(input, Tensor) else on_arrays.call(input)

    return OverloadChoice(function)


def choose_conj(overloads: Overloads) -> OverloadChoice:
    """Makes ``conj(input)``, which is the input itself where that is real, as in torch."""
    overload = overloads["conj"]

    def function(input: Any) -> Any:
        is_itself = isinstance(input, Tensor) and input.dtype not in COMPLEX
        return input if is_itself else overload.call(input)

    return OverloadChoice(function)


def choose_conv(rank: int, overloads: Overloads) -> OverloadChoice:
    """Makes ``conv2d``, whose padding may be a name."""
    by_numbers, by_name = overloads[f"conv{rank}d"], overloads[f"conv{rank}d.padding"]

    def function(  # noqa: PLR0917  torch's signature
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        overload = by_name if isinstance(padding, str) else by_numbers
        return overload.call(input, weight, bias, stride, padding, dilation, groups)

    return OverloadChoice(function)


def choose_sort(overloads: Overloads) -> OverloadChoice:
    """Makes ``sort(input, dim=-1, descending=False, *, stable=False)``, whose schema has all by keyword."""
    overload = overloads["sort"]
    results = make_results(overload._schema)
    assert results is not None

    def function(input: Any, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Any:
        return results(*overload.call(input, stable=stable, dim=dim, descending=descending))

    return OverloadChoice(function)


def choose_matrix_norm(overloads: Overloads) -> OverloadChoice:
    """Makes ``linalg.matrix_norm``, whose order may be a name."""
    by_number, by_name = overloads["linalg_matrix_norm"], overloads["linalg_matrix_norm.str_ord"]

    def function(
        input: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
    ) -> Any:
        overload = by_name if isinstance(ord, str) else by_number
        return overload.call(input, ord, dim, keepdim, dtype=dtype)

    return OverloadChoice(function)


def choose_histogram(overloads: Overloads) -> OverloadChoice:
    """Makes ``histogram(input, bins, *, range, weight, density)``, where bins may be a vector of edges."""
    by_count, by_edges = overloads["histogram.bin_ct"], overloads["histogram.bins_tensor"]
    results = make_results(by_count._schema)
    assert results is not None

    def function(
        input: Any, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False
    ) -> Any:
        if isinstance(bins, int):
            result = by_count.call(input, bins, weight, range=range, density=density)
        elif range is None:
            result = by_edges.call(input, bins, weight, density=density)
        else:
            raise ArgumentTypeError("argument 'range' goes with a number of bins", "Leave it out.")
        return results(*result)

    return OverloadChoice(function)


def choose_pad(overloads: Overloads) -> OverloadChoice:
    """Makes ``pad(input, pad, mode, value)``, of which autocast on the CPU computes some modes in float32."""
    overload = overloads["pad"]

    def function(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
        if mode == "replicate" or (mode == "reflect" and len(pad) <= 4):  # torch has no rule for three dims
            return call_in_float32(overload.call, input, pad, mode, value)
        return overload.call(input, pad, mode, value)

    return OverloadChoice(function)


OF_FORMS: dict[str, Chooser] = {
    **{f"conv{rank}d": partial(choose_conv, rank) for rank in (1, 2, 3)},
    "linalg_matrix_norm": choose_matrix_norm,
    "histogram": choose_histogram,
    "sort": choose_sort,
    "max": partial(choose_extremum, "max"),
    "min": partial(choose_extremum, "min"),
    **{name: partial(choose_median, name) for name in ("median", "nanmedian")},
    "prod": choose_prod,
    **{name: partial(choose_moment, name) for name in ("var", "std", "var_mean", "std_mean")},
    "pad": choose_pad,
    "detach": choose_detach,
    "conj": choose_conj,
}
