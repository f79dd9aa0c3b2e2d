"""The checks of the grid beside torch, listed: one program of each sample, run on both."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from oplib.builtin.public_functions.registry import FUNCTIONS, IN_PLACE
from tests.builtin.grid.calls import Call, draw_weights_like, from_vector
from tests.builtin.grid.check import (
    Check,
    has_floats,
    has_in_place_form,
    is_smooth_when_complex,
    may_differentiate,
)
from tests.builtin.grid.checks_forms import takes_out
from tests.builtin.samples.drawing import Sample, list_arrays

from .counterparts import has_counterpart
from .torch_samples import assert_alike, function_of, make, make_arguments, to_list, to_numpy


def check_values(call: Call) -> None:
    def program(lib: Any) -> list[Any]:
        args, kwargs, _ = make_arguments(lib, call, requires_grad=False)
        return to_list(function_of(lib, call.name)(*args, **kwargs))

    assert_alike(program)


def check_gradient(call: Call) -> None:
    def program(lib: Any) -> list[Any]:
        args, kwargs, leaves = make_arguments(lib, call)
        results = to_list(function_of(lib, call.name)(*args, **kwargs))
        floating = [one for one in results if one.requires_grad]
        weights = draw_weights_like([to_numpy(one) for one in floating])
        lib.autograd.backward(floating, [make(lib, weight, []).detach() for weight in weights])
        return [leaf.grad for leaf in leaves]

    assert_alike(program)


def check_forward_mode(call: Call) -> None:
    """Every floating argument has a tangent. Where torch has zeros, of steps such as floor, none will do."""

    def program(lib: Any) -> list[Any]:
        tangents = iter(from_vector(call.direction, call.floats))

        def lift(value: Any) -> Any:
            if isinstance(value, list):
                return [lift(one) for one in value]
            if not isinstance(value, lib.Tensor) or not value.requires_grad:
                return value
            return lib.autograd.forward_ad.make_dual(value.detach(), make(lib, next(tangents), []).detach())

        args, kwargs, _ = make_arguments(lib, call)
        with lib.autograd.forward_ad.dual_level():
            function = function_of(lib, call.name)
            results = function(*map(lift, args), **{name: lift(value) for name, value in kwargs.items()})
            return [lib.autograd.forward_ad.unpack_dual(one).tangent for one in to_list(results)]

    assert_alike(program)


def check_in_place(call: Call) -> None:
    """The in-place form: on a clone, on a leaf, and on integers."""

    def write(lib: Any, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        name = f"{call.row.op}_"
        if lib is not torch:
            return [IN_PLACE[name](*args, **kwargs)]
        method = getattr(args[0], name, None)
        function = getattr(torch.nn.functional, name, None)
        return [method(*args[1:], **kwargs) if method is not None else function(*args, **kwargs)]  # pyright: ignore[reportOptionalCall]

    def on_clone(lib: Any) -> list[Any]:
        args, kwargs, _ = make_arguments(lib, call)
        return write(lib, [args[0].clone(), *args[1:]], kwargs)

    def on_integers(lib: Any) -> list[Any]:
        args, kwargs, _ = make_arguments(lib, call)
        integers = np.nan_to_num(to_numpy(args[0]).real, posinf=1.0, neginf=1.0).astype(np.int64)
        return write(lib, [make(lib, np.asarray(integers), []), *args[1:]], kwargs)

    for program in (on_clone, on_integers):
        assert_alike(program)


def torch_writes_in_place(name: str, sample: Sample) -> bool:
    if not has_in_place_form(name, sample) or not has_counterpart(name):
        return False
    form = f"{name.partition('.')[0]}_"
    return hasattr(torch.Tensor, form) or hasattr(torch.nn.functional, form)


def check_out(call: Call) -> None:
    """``out=`` of the right shape, of another, without items, and of a dtype that cannot hold it."""
    name = call.row.op
    args, kwargs, _ = make_arguments(torch, call, requires_grad=False)
    results = to_list(getattr(torch, name)(*args, **kwargs))
    dtypes = [str(result.dtype).removeprefix("torch.") for result in results]

    def write(lib: Any, shape: Any, dtypes: list[str]) -> list[Any]:
        args, kwargs, _ = make_arguments(lib, call, requires_grad=False)
        function = getattr(torch, name) if lib is torch else FUNCTIONS[name]
        outs = [lib.ones(shape, dtype=getattr(lib, dtype)) for dtype in dtypes]
        return to_list(function(*args, **kwargs, out=outs[0] if len(outs) == 1 else tuple(outs)))

    assert_alike(lambda lib: write(lib, (0,), dtypes))
    assert_alike(lambda lib: write(lib, (7, 1), dtypes))
    if all(result.is_floating_point() for result in results):
        assert_alike(lambda lib: write(lib, (0,), ["int64"] * len(dtypes)))


def compares(name: str, sample: Sample) -> bool:
    return has_counterpart(name)


def compares_gradient(name: str, sample: Sample) -> bool:
    return has_counterpart(name) and may_differentiate(name, sample)


def compares_complex(name: str, sample: Sample) -> bool:
    """Of every op with real arguments: what torch refuses of complex ones is to be refused."""
    arrays = list(list_arrays(sample))
    return (
        has_counterpart(name)
        and has_floats(name, sample)
        and not any(one.dtype.kind == "c" for one in arrays)
    )


def compares_complex_gradient(name: str, sample: Sample) -> bool:
    return has_counterpart(name) and is_smooth_when_complex(name, sample)


def compares_out(name: str, sample: Sample) -> bool:
    """Where torch's function says that it takes ``out``; some of ours do though torch's does not."""
    function = getattr(torch, name.partition(".")[0], None)
    return takes_out(name, sample) and "out=None" in (getattr(function, "__doc__", None) or "")


BESIDE_TORCH: tuple[Check, ...] = (
    Check("torch: values", check_values, compares, share=1.0),
    Check("torch: gradient", check_gradient, compares_gradient, share=0.5),
    Check("torch: forward mode", check_forward_mode, compares_gradient, share=0.06),
    Check("torch: complex values", check_values, compares_complex, share=0.1, is_complex=True),
    Check("torch: complex gradient", check_gradient, compares_complex_gradient, share=0.1, is_complex=True),
    Check("torch: in place", check_in_place, torch_writes_in_place, share=0.1),
    Check("torch: out", check_out, compares_out, share=0.1),
)
