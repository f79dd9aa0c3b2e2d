"""``test_schema`` and ``test_autograd_registration``: whether the op does what it declares."""

from __future__ import annotations

from collections.abc import Iterator

from oplib.autograd.grad_mode import enable_grad
from oplib.autograd.nodes.edges import walk_nodes
from oplib.autograd.user_functions.function_node import BackwardCFunction
from oplib.errors import AutogradError, OpMismatchError, ResultError, describe
from oplib.library.kernels.tensor_kernel import find_tensors
from oplib.library.op_records.record import Derivative, Tag
from oplib.tensor import Tensor

from .comparison import Tolerance, find_difference
from .fake_kernel_check import check_fake
from .sample import Sample, flatten


def check_schema(sample: Sample, _: Tolerance) -> None:
    """Calls the op and compares its writes and results with its schema.

    Every call checks that results have the declared kinds, so this test does not.

    Raises:
        AutogradError: an argument was written without a declaration, or a result shares memory with one.
    """
    leaves = sample.make_tensors(requires_grad=False)
    before = [leaf._storage.array if isinstance(leaf, Tensor) else None for leaf in leaves]
    schema = sample.overload.record.schema
    written = {argument.name for argument in schema.arguments if argument.is_written}
    try:
        results = sample.call(leaves)
    except ResultError:
        if _has_wrong_fake(sample):  # test_faketensor reports this
            return
        raise
    may_alias = Tag.view in sample.overload.tags or any(output.is_view for output in schema.returns)
    for index, leaf in enumerate(leaves):
        if not (tensors := find_tensors([leaf])):
            continue
        name, tensor = sample.name(index), tensors[0]
        if name in written:
            continue
        # A write through ``.data`` counts no version.
        if tensor._storage.version or find_difference(tensor.array, before[index], Tolerance(0, 0)):
            raise AutogradError(
                f"{schema.qualified_name}: Argument {name} is not defined as mutable but was mutated. It is "
                f"{describe(tensor.array)} at version {tensor._storage.version}. Declare it: "
                f"mutates_args=('{name}',), or write into a clone."
            )
        if not may_alias and any(
            tensor._storage.owner is result._storage.owner for result in find_tensors(results)
        ):
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


def check_registration(sample: Sample, _: Tolerance) -> str | None:
    """Raises OpMismatchError if an eager kernel without a formula applies a Function.

    Its backward would never run. A kernel that may apply none passes.
    """
    record = sample.overload.record
    if not sample.needs_grad:
        return sample.explain_no_derivative() or "no argument requires grad"
    if record.kind != "tensor" or record.is_custom or record.derivative != Derivative():
        return None
    for kernel in record.kernels.values():
        leaves = sample.make_tensors()
        with enable_grad():
            results = flatten(sample.apply(kernel, leaves, is_kernel=True))
        names = [name for result in results if isinstance(result, Tensor) for name in _find_functions(result)]
        if names:
            raise OpMismatchError(
                f"{record.name}: the kernel applies the autograd.Function {names[0]}, and no derivative is "
                "registered. A kernel runs below autograd, so the backward of the Function is never used. "
                "Register it with register_autograd, or impl the kernel under CompositeImplicitAutograd."
            )
    return None


def _find_functions(result: Tensor) -> Iterator[str]:
    """Yields the names of the users' Functions in the graph of a result."""
    for node in walk_nodes([result.grad_fn]):
        if isinstance(node, BackwardCFunction):
            yield node.name()
