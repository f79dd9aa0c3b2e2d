"""``vmap``: calls a function of one example for a whole batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal

from oplib.errors import ArgumentError, ArgumentValueError, describe
from oplib.protocols import AnyFunction
from oplib.pytree import tree_unflatten
from oplib.tensor import Tensor, upcalls
from oplib.tensor.random.draw_log import DrawLog
from oplib.tracebacks import entry_point

from .dims import Arguments, move_batch, normalize_dim, read_arguments, repeat, take_results_apart
from .map_region import Mapped, Region

Randomness = Literal["error", "different", "same"]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: Randomness = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Maps a function of Tensors over a dimension of its arguments.

    The function runs once and sees one example, so it cannot read values. Inside, ops are recorded as usual:
    ``oplib.autograd.grad`` is per example, and gradients flow through the map to its arguments and to
    captured tensors, to any order. ``backward`` inside raises. A mapped argument may be written in place. A
    mapped value must not be written into a tensor that is not mapped.

    Args:
        func: a function from Tensors to Tensors, in any containers. Keyword arguments are passed on
            unchanged.
        in_dims: the batch dimension of each argument: an int for all; or a tuple with an int, None (the same
            for all examples) or a container of these for each.
        out_dims: the batch dimension of each result; None for a result that is the same for all examples.
        randomness: the effect of a random draw: ``"error"`` raises, ``"different"`` draws for each example,
            ``"same"`` draws once for all.
        chunk_size: the number of examples mapped at a time. A small number needs less memory.

    Returns:
        A function of whole batches.

    Raises:
        ArgumentError: ``randomness`` is unknown.
        ArgumentValueError: ``chunk_size`` is not positive. In a call: dims do not fit, batches differ in
            size, or a result is not a Tensor.
        DimensionError: in a call: a result does not have the dim in ``out_dims``.
        TracingError: in a call: ``func`` reads a value, makes a forbidden random draw, or writes a mapped
            value into a tensor that is not mapped.

    Gradient:
        The gradient of ``func`` for each example; summed for tensors that are not mapped.

    Source:
        ``torch.vmap`` of PyTorch 2.13.

    Example:
        >>> import oplib
        >>> rows = oplib.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> oplib.vmap(lambda row: row * row.sum())(rows)
        tensor([[ 3.,  6.],
                [21., 28.]])
    """
    is_text = isinstance(randomness, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    if not is_text or randomness not in ("error", "different", "same"):
        raise ArgumentError(
            "vmap: Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{describe(randomness)}. Choose one of them."
        )
    is_size = isinstance(chunk_size, int) and chunk_size > 0
    if chunk_size is not None and not is_size:
        raise ArgumentValueError(
            f"vmap: chunk_size should be None or greater than 0. Got {describe(chunk_size)}. Give the "
            "number of examples to map at a time."
        )

    @entry_point
    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        name = getattr(func, "__name__", None) or describe(func)
        arguments = read_arguments(name, in_dims, args)
        call = _Call(func, name, out_dims, kwargs)
        if chunk_size is None or chunk_size >= arguments.size:
            results = call.run(arguments, randomness)
        else:
            results = _run_chunks(call, arguments, randomness, chunk_size)
        return tree_unflatten(results, call.spec)

    return mapped


class _Call:
    """One call of a mapped function, with the structure and the dims of its results after the run."""

    def __init__(self, func: AnyFunction, name: str, out_dims: Any, kwargs: dict[str, Any]) -> None:
        self.func = func
        self.name = name
        self.out_dims = out_dims
        self.kwargs = kwargs
        self.spec: Any = None
        self.dims: list[int | None] = []

    def run(self, arguments: Arguments, randomness: Randomness) -> list[Tensor]:
        """Runs the map. Results have the batch at their ``out_dims``."""

        def call(values: list[Any]) -> Sequence[Tensor | None]:
            results = self.func(*tree_unflatten(values, arguments.spec), **self.kwargs)
            leaves, self.spec, self.dims = take_results_apart(self.name, self.out_dims, results)
            return leaves

        mapped = Region(arguments.size, randomness).run(call, arguments.leaves, arguments.dims)
        return [
            self._move_result(result, dim, arguments.size)
            for result, dim in zip(mapped, self.dims, strict=True)
        ]

    def _move_result(self, result: Mapped, dim: int | None, size: int) -> Tensor:
        tensor: Any = result.tensor
        array = tensor._storage.array
        if dim is None:
            if result.is_batched:
                raise ArgumentValueError(
                    f"vmap({self.name}, ...): `{self.name}` can not return a mapped Tensor when out_dim is "
                    f"None. Got {describe(array)} with the batch in front. Give the place where the batch is "
                    "to be."
                )
            return tensor
        if not result.is_batched:
            tensor = repeat(tensor, size)
        axis = normalize_dim(tensor._storage.array.ndim, dim)
        return move_batch(tensor, 0, axis) if axis else tensor


def _run_chunks(call: _Call, arguments: Arguments, randomness: Randomness, chunk_size: int) -> list[Tensor]:
    """Maps some examples at a time. With ``"same"`` each chunk draws the same numbers as the first."""
    draw_log = DrawLog()
    chunks: list[list[Tensor]] = []
    for start in range(0, arguments.size, chunk_size):
        if randomness == "same":
            draw_log.rewind()
        with draw_log.noting():
            chunks.append(
                call.run(_take(arguments, start, min(start + chunk_size, arguments.size)), randomness)
            )
    return [
        chunks[0][index] if dim is None else upcalls.cat([chunk[index] for chunk in chunks], dim)
        for index, dim in enumerate(call.dims)
    ]


def _take(arguments: Arguments, start: int, stop: int) -> Arguments:
    leaves = [
        leaf if dim is None else leaf[(slice(None),) * dim + (slice(start, stop),)]
        for leaf, dim in zip(arguments.leaves, arguments.dims, strict=True)
    ]
    return Arguments(leaves, arguments.spec, arguments.dims, stop - start)


def map_examples(
    call: Callable[[tuple[Tensor, ...]], Sequence[Tensor | None]], tensors: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    """Maps a function of a tuple of Tensors, with the batch in front. The function may return Nones.

    Results that are the same for all examples are repeated for each. Random draws raise.
    """
    size = tensors[0]._storage.array.shape[0]
    mapped = Region(size, "error").run(lambda values: call(tuple(values)), tensors, [0] * len(tensors))
    return tuple(
        result.tensor if result.tensor is None or result.is_batched else repeat(result.tensor, size)
        for result in mapped
    )
