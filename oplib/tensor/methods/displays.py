"""The displays of a Tensor in notebooks."""

from __future__ import annotations

from typing import Any

from oplib.errors import describe
from oplib.markup import escape
from oplib.tensor.devices.device import device_of_array, is_abstract
from oplib.tensor.storage.ended import EndedStorage
from oplib.tensor.storage.tensor_slots import TensorSlots


class TensorDisplays:
    """Mixin with the protocols of IPython and treescope. Neither changes the Tensor or raises."""

    def _repr_html_(self: TensorSlots) -> str:
        storage = self._storage
        facts = [] if isinstance(storage, EndedStorage) else _list_facts(self, storage.array)
        text = escape(repr(self))
        return f"<div>{escape(' · '.join(['Tensor', *facts]))}</div><pre>{text}</pre>"

    def __treescope_repr__(self: TensorSlots, path: str | None, subtree_renderer: Any) -> Any:
        if isinstance(self._storage, EndedStorage):
            return NotImplemented
        from treescope import repr_lib  # noqa: PLC0415  # pyright: ignore[reportMissingImports]  it calls this

        shown: dict[str, Any] = {"array": self._storage.array}
        if self._grad_fn is not None:
            shown["grad_fn"] = self._grad_fn
        elif self._requires_grad:
            shown |= {"requires_grad": True, "grad": getattr(self, "_gradient", None)}
        return repr_lib.render_object_constructor(
            object_type=type(self), attributes=shown, path=path, subtree_renderer=subtree_renderer
        )


def _list_facts(tensor: TensorSlots, array: Any) -> list[str]:
    facts = [describe(array)]
    if not is_abstract(array):
        devices = array.devices()
        is_spread = len(devices) > 1
        facts += [f"{array.nbytes:,} bytes", str(array.sharding if is_spread else device_of_array(array))]
    if tensor._grad_fn is not None:
        return [*facts, f"grad_fn {tensor._grad_fn!r}"]
    return [*facts, "requires grad"] if tensor._requires_grad else facts
