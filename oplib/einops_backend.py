"""The backend by which einops takes Tensors. It is imported together with einops, and nobody else imports it.

einops finds a backend among the subclasses of its class when it meets a new type, if ``framework_name`` is an
imported module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from einops._backends import AbstractBackend

from oplib.builtin.public_functions.registry import FUNCTIONS
from oplib.tensor import Tensor, arange
from oplib.tensor.factories.from_data import tensor as make_tensor

_REDUCTIONS = {"max": "amax", "mean": "mean", "min": "amin", "sum": "sum"}


class EinopsBackend(AbstractBackend):
    """The functions that einops calls of a library of arrays. Each is one op, and is recorded."""

    framework_name = "oplib"

    # The methods are einops's, which describes none of them.
    def is_appropriate_type(self, tensor: object) -> bool:  # noqa: D102
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Tensor:  # noqa: D102
        return make_tensor(x)

    def to_numpy(self, x: Tensor) -> Any:  # noqa: D102
        return x.numpy(force=True)

    def arange(self, start: int, stop: int) -> Tensor:  # noqa: D102
        return arange(start, stop)

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Tensor:  # noqa: D102
        if operation in _REDUCTIONS:
            return getattr(x, _REDUCTIONS[operation])(dim=tuple(axes))
        for axis in sorted(axes, reverse=True):  # `prod` takes one at a time
            x = getattr(x, operation)(dim=axis)
        return x

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:  # noqa: D102
        return x.permute(tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:  # noqa: D102
        return FUNCTIONS["stack"](tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:  # noqa: D102
        return x.unsqueeze(new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: Mapping[int, int]) -> Tensor:  # noqa: D102
        for position in pos2len:
            x = x.unsqueeze(position)
        return x.expand([pos2len.get(position, -1) for position in range(n_axes)])

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Tensor:  # noqa: D102
        return x.repeat(tuple(repeats))

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:  # noqa: D102
        return FUNCTIONS["cat"](list(tensors), dim=axis)

    def is_float_type(self, x: Tensor) -> bool:  # noqa: D102
        return x.is_floating_point()

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:  # noqa: D102
        return FUNCTIONS["einsum"](pattern, *x)
