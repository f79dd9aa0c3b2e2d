"""What a run of a random program leaves, and how it is compared with torch's."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import oplib

TOLERANCES = {"float32": 2e-4, "bfloat16": 4e-2, "float16": 6e-3}


def has_grad(tensor: Any) -> bool:
    """Whether a Tensor may hold a gradient; torch refuses to tell of a view that a Function returned."""
    try:
        return tensor is not None and (tensor.is_leaf or tensor.retains_grad)
    except RuntimeError:
        return False


def is_leaf(tensor: Any) -> bool | None:
    try:
        return tensor.is_leaf
    except RuntimeError:
        return None


def read_version(tensor: Any) -> int:
    return 0 if tensor.is_inference() else tensor._version


def storage_of(tensor: Any) -> Any:
    """Returns what is equal for Tensors that share memory."""
    if isinstance(tensor, oplib.Tensor):
        return id(tensor._storage.owner)
    return tensor.untyped_storage()._cdata


def read_values(tensor: Any) -> np.ndarray:
    """Returns float32 values; of oplib's Tensors without an op, which would be compiled for each shape."""
    if isinstance(tensor, oplib.Tensor):
        return np.array(tensor.detach().numpy(), np.float32)
    return (tensor.detach().float() + 0).numpy().copy()  # a gradient of zeros has no values yet


def describe(run: Any, values: Sequence[Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns facts about all Tensors of a run, and their values."""
    named = {f"leaf {number}": leaf for number, leaf in enumerate(run.leaves)}
    named |= {f"value {number}": value for number, value in enumerate(values)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        named |= {f"grad of {name}": one.grad for name, one in list(named.items()) if has_grad(one)}
    tensors = {name: one for name, one in named.items() if one is not None}
    owners: dict[Any, str] = {}
    facts: dict[str, Any] = {"trace": list(run.trace), "names": list(tensors)}
    arrays = {}
    for name, one in tensors.items():
        owner = owners.setdefault(storage_of(one), name)
        facts[name] = {
            "shape": tuple(one.shape),
            "dtype": str(one.dtype).removeprefix("torch.").removeprefix("dtype('").removesuffix("')"),
            "requires_grad": one.requires_grad,
            "is_leaf": is_leaf(one),
            "inference": one.is_inference(),
            "version": read_version(one) - run.versions[id(one)][1] if id(one) in run.versions else None,
            "shares with": owner,
            "is a view": owner != name and not one.is_inference() and one._is_view(),
        }
        arrays[name] = read_values(one)
    return facts, arrays


class Known(Exception):
    """A difference that stands on the page of differences; the rest of the program says nothing."""


KNOWN = [
    # Of torch, for a view of a leaf that was made in no_grad.
    " of tensors does not require grad",
    # Also after a write through detach(), which changes no history.
    "This view was created inside a custom Function",
    # Torch cannot write into an expanded Tensor without items.
    "setStorage: sizes",
    # Torch's custom_op does not ask.
    "Inplace update to inference tensor outside",
    # Inside of a checkpoint and of hooks for saved tensors oplib does not ask.
    "Inference tensors cannot be saved for backward",
    # Saved, and not read, where only the base of a power requires grad.
    "which is output 0 of Pow",
    # The gradient of std never reads its saved result.
    "which is output 0 of Std",
    # What is saved keeps the history that it had.
    "saved tensor that has been detached in-place",
    # Under autocast torch joins no two kinds of halves, and roll() joins.
    "at::autocast::prioritize",
    # Of index_fill_ of a 0-d Tensor, whose gradient reads places only.
    "which is output 0 of IndexFill",
    # oplib reads operands before it writes anything.
    "some elements of the input tensor and the written-to tensor",
]


class Difference(AssertionError):
    """A difference between two runs: a place, and a kind by which it is counted."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


def has_later_history(theirs: Any, mine: Any) -> bool:
    """Whether a view is a leaf in torch only, which requires grad as its base does."""
    (facts, _), (other_facts, _) = theirs, mine
    return any(
        facts[name]["is a view"]
        and facts[name]["requires_grad"]
        and facts[name]["is_leaf"]
        and other_facts[name]["is_leaf"] is False
        for name in {*facts["names"]} & {*other_facts["names"]}
    )


def compare(
    theirs: Any, mine: Any, shaken: Any = None, *, left_out: Sequence[str] = (), has_mask: bool = False
) -> None:
    """Raises Difference where two descriptions differ; numbers that rounding moves far are left out.

    With ``has_mask`` it raises Known where torch alone has nan: torch multiplies a gradient by a mask.
    """
    (facts, arrays), (other_facts, other_arrays) = theirs, mine
    untold = {
        f"grad of {name}"
        for name in facts["names"]
        if facts[name]["is_leaf"] is None
        # of a view made in no_grad mode: torch calls it a leaf, and gives it no gradient
        or (facts[name]["is_leaf"] and facts[name]["is a view"])
    } - {*facts["names"]}
    other_facts["names"] = [name for name in other_facts["names"] if name not in untold]
    for name in ("trace", "names"):
        if name not in left_out and facts[name] != other_facts[name]:
            raise Difference(name, f"{name}\ntorch: {facts[name]}\noplib: {other_facts[name]}")
    for name in facts["names"]:
        for fact, value in facts[name].items():
            if fact == "is_leaf" and value is None:
                continue  # torch does not tell after a write through detach(), which here changes no history
            if fact not in left_out and other_facts[name][fact] != value:
                raise Difference(
                    f"{fact}: {name.rstrip('0123456789 ')}",
                    f"{fact} of {name}\ntorch: {facts[name]}\noplib: {other_facts[name]}",
                )
    for name, array in arrays.items():
        limit = max(TOLERANCES.get(facts[one]["dtype"], 0) for one in facts["names"])
        if shaken is not None and np.shape(shaken[1].get(name)) == array.shape:
            with np.errstate(all="ignore"):
                moved = ~np.isclose(array, shaken[1][name], rtol=limit, atol=limit, equal_nan=True)
        else:
            moved = np.zeros_like(array, bool)
        with np.errstate(all="ignore"):
            close = np.isclose(array, other_arrays[name], rtol=limit, atol=limit, equal_nan=True)
        masked = np.isnan(array) & np.isfinite(other_arrays[name])
        if has_mask and not (close | moved).all() and (close | moved | masked).all():
            raise Known("a gradient that is nan where a mask is 0")
        if not (close | moved).all():
            text = f"{name}\ntorch: {array}\noplib: {other_arrays[name]}"
            raise Difference(f"numbers: {name.rstrip('0123456789 ')}", text)
