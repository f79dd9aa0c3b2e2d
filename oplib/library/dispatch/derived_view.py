"""View ops that users register. The frame of a view is derived from the moves of items in the op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oplib.autograd.recording.view import adopt_view
from oplib.errors import OplibError
from oplib.library.arguments.layout import Layout
from oplib.library.op_records.record import Record, Tag
from oplib.tensor import Tensor
from oplib.tensor.views import IndexMap, derive_index_map

Run = Callable[[Sequence[Any]], Sequence[Any]]
_CAPACITY = 256


def gives_views(record: Record) -> bool:
    """Tells whether results of an op share memory with its first tensor, by its tag or its schema."""
    return Tag.view in record.tags or any(returned.is_view for returned in record.schema.returns)


class ViewDeriver:
    """Makes the results of one op views of its argument.

    Attributes:
        name: the name of the op.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._known: dict[Any, list[IndexMap | None]] = {}

    def link(
        self, layout: Layout, tensors: Sequence[Tensor | None], results: Sequence[Tensor], run: Run
    ) -> None:
        """Makes results views of the first Tensor of a call. A result that is no view becomes read-only.

        Args:
            layout: the layout of the call.
            tensors: its array arguments, with None for those that are no Tensors.
            results: its results as Tensors.
            run: computes the results from the arrays of the arguments.
        """
        index = next((index for index, tensor in enumerate(tensors) if tensor is not None), None)
        if index is None:
            return
        tensor = tensors[index]
        assert tensor is not None
        frames = self._find_frames(layout, index, tensors, results, run=run)
        for result, frame in zip(results, frames, strict=True):
            if frame is None:
                result._read_only = self.name
            else:
                adopt_view(result, tensor, frame, is_one_of_several=len(results) > 1)

    def _find_frames(
        self, layout: Layout, index: int, tensors: Sequence[Any], results: Sequence[Tensor], *, run: Run
    ) -> list[IndexMap | None]:
        """Returns the frames of all results. They are cached if they depend on layout and shape only."""
        whole = tensors[index]._storage.array
        key = (layout, whole.shape, whole.dtype) if len(tensors) == 1 else None
        frames = None if key is None else self._known.get(key)
        if frames is None:
            frames = [
                _find_frame(run, number, whole, result._storage.array)
                for number, result in enumerate(results)
            ]
            if key is not None:
                if len(self._known) >= _CAPACITY:
                    self._known.clear()
                self._known[key] = frames
        return frames


def _find_frame(run: Run, number: int, whole: Any, part: Any) -> IndexMap | None:
    try:
        return derive_index_map(lambda positions: run([positions])[number], whole, part)
    except OplibError:
        return None
