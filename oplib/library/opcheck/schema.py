"""``test_schema``: whether the op does what its schema declares."""

from __future__ import annotations

from oplib.errors import AutogradError, OpMismatchError, ResultError, describe
from oplib.library.kernels.tensor_kernel import find_tensors
from oplib.library.records.record import Tag
from oplib.modes import modes

from .comparison import Tolerance
from .fake import check_fake
from .sample import Sample


def check_schema(sample: Sample, tolerance: Tolerance) -> None:
    """Calls the op and compares its writes and results with its schema.

    Every call checks that results have the declared kinds, so this test does not.

    Raises:
        AutogradError: an argument was written without a declaration, or a result shares memory with one.
    """
    del tolerance
    leaves = sample.make_tensors(requires_grad=False)
    schema = sample.overload.record.schema
    written = {argument.name for argument in schema.arguments if argument.is_written}
    state = modes.state
    grad_mode, state.grad_enabled = state.grad_enabled, False
    try:
        results = sample.call(leaves)
    except ResultError:
        if _has_wrong_fake(sample):  # test_faketensor reports this
            return
        raise
    finally:
        state.grad_enabled = grad_mode
    may_alias = Tag.view in sample.overload.tags or any(output.is_view for output in schema.returns)
    for place, leaf in enumerate(leaves):
        if not (tensors := find_tensors([leaf])):
            continue
        name, tensor = sample.name(place), tensors[0]
        if name in written:
            continue
        if tensor._storage.version:
            raise AutogradError(
                f"{schema.qualified_name}: Argument {name} is not defined as mutable but was mutated. It is "
                f"{describe(tensor.array)} at version {tensor._storage.version}. Declare it: "
                f"mutates_args=('{name}',), or write into a clone."
            )
        if not may_alias and any(tensor._storage is result._storage for result in find_tensors(results)):
            raise AutogradError(
                f"{schema.qualified_name}: Argument {name} is not defined to alias output but was aliasing. "
                f"It is {describe(tensor.array)}. Return a clone of it."
            )


def _has_wrong_fake(sample: Sample) -> bool:
    try:
        check_fake(sample, Tolerance())
    except OpMismatchError:
        return True
    return False
