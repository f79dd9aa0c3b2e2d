"""Running eager kernels on Tensors: plain Python, on every call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oplib.errors import AutogradError, ResultError, describe
from oplib.tensor import Tensor

from .kernel_choice import choose_kernel, find_device
from .record import Record, Tag
from .results import take_returned_arguments
from .structure import pack
from .tensor_kernel import check_tensor_results
from .tracing import grad_off


def run_below_autograd(record: Record, values: Sequence[Any]) -> Any:
    """Runs the kernel with grad mode off, around the very Tensors of the caller, and checks what it did."""
    inputs = list(_tensors(values))
    written = {id(tensor) for tensor in _written(record, values)}
    kernel = _choose(record, values, inputs)
    if record.is_custom:
        for tensor in _written(record, values):
            tensor._storage.version += 1
    versions = [tensor._storage.version for tensor in inputs]
    args, kwargs = _split(record, values)
    with grad_off():
        result = kernel(*args, **kwargs)
    for tensor, version in zip(inputs, versions, strict=True):
        if tensor._storage.version != version and id(tensor) not in written:
            raise _undeclared_write(record, values, tensor)
    return _finish(record, check_tensor_results(record, result), values)


def run_composite(record: Record, values: Sequence[Any]) -> Any:
    """Runs a composite kernel in the caller's grad mode: autograd sees the ops it is made of."""
    args, kwargs = _split(record, values)
    kernel = _choose(record, values, list(_tensors(values)))
    return pack(check_tensor_results(record, kernel(*args, **kwargs)))


def _choose(record: Record, values: Sequence[Any], inputs: Sequence[Tensor]) -> Any:
    if record.sole_kernel is not None:
        return record.sole_kernel
    return choose_kernel(record, [tensor._storage.array for tensor in inputs], find_device(record, values))


def _split(record: Record, values: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Positional values, lists fresh so that a kernel may change them, and keyword-only ones."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument, value in zip(record.schema.arguments, values, strict=True):
        fresh = list(value) if isinstance(value, list) else value
        if argument.kwarg_only:
            kwargs[argument.name] = fresh
        else:
            args.append(fresh)
    return args, kwargs


def _tensors(values: Iterable[Any]) -> Iterable[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _written(record: Record, values: Sequence[Any]) -> list[Tensor]:
    marked = [
        value for argument, value in zip(record.schema.arguments, values, strict=True) if argument.is_written
    ]
    return list(_tensors(marked))


def _undeclared_write(record: Record, values: Sequence[Any], tensor: Tensor) -> AutogradError:
    named = zip(record.schema.arguments, values, strict=True)
    name = next(
        argument.name for argument, value in named if any(found is tensor for found in _tensors([value]))
    )
    return AutogradError(
        f"{record.name}: the kernel wrote argument '{name}', which is not defined as mutable but was "
        f"mutated. It is {describe(tensor._storage.array)} at version {tensor._storage.version}. Declare it: "
        f"mutates_args=('{name}',), or write into a clone."
    )


def _finish(record: Record, results: list[Any], values: Sequence[Any]) -> Any:
    """Refuses results that share storage with an input or each other, and cuts what history they carry.

    Two kinds of results may: written arguments, which an op of ``custom_op`` returns only under a tag, and
    what the schema marks as a view.
    """
    schema = record.schema
    if record.is_custom and Tag.inplace not in record.tags and Tag.out not in record.tags:
        places: Sequence[int | None] = (None,) * len(results)
    else:
        places = schema.returned_arguments
        take_returned_arguments(record.name, schema, results, values)
    triples = zip(results, places, schema.returns, strict=True)
    _refuse_aliases(
        record, [one for one, place, declared in triples if place is None and not declared.is_view], values
    )
    return pack([_cut(one) if place is None else one for one, place in zip(results, places, strict=True)])


def _refuse_aliases(record: Record, results: Sequence[Any], values: Sequence[Any]) -> None:
    seen = {id(tensor._storage) for tensor in _tensors(values)}
    for tensor in _tensors(results):
        if id(tensor._storage) in seen:
            raise ResultError(
                f"{record.name}: a result may not alias an input or another result. "
                f"{describe(tensor._storage.array)} shares its storage. Return a copy: tensor.clone()."
            )
        seen.add(id(tensor._storage))


def _cut(value: Any) -> Any:
    if isinstance(value, list):
        return [_cut(member) for member in value]
    return value.detach() if isinstance(value, Tensor) and value._requires_grad else value
