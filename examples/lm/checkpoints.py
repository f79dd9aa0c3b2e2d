"""Checkpoints by orbax, which writes while the next steps run, and reads onto another mesh too."""

from collections.abc import Mapping
from pathlib import Path

import orbax.checkpoint as ocp  # pyright: ignore[reportMissingImports] -- comes with the extra lm

import oplib
from oplib import Tensor


class Checkpoints:
    """The last checkpoints of a run, in a folder that all processes share."""

    def __init__(self, folder: Path) -> None:
        keep = ocp.CheckpointManagerOptions(max_to_keep=2)
        kinds = {"arrays": ocp.StandardCheckpointHandler(), "losses": ocp.JsonCheckpointHandler()}
        self._manager = ocp.CheckpointManager(folder.resolve(), options=keep, item_handlers=kinds)
        self.latest: int | None = self._manager.latest_step()
        self.close = self._manager.close  # waits until everything is written

    def save(self, step: int, tensors: Mapping[str, Tensor], losses: list[float]) -> None:
        """Copies the Tensors, and writes them in the background."""
        arrays = ocp.args.StandardSave({name: tensor.array for name, tensor in tensors.items()})
        self._manager.save(step, args=ocp.args.Composite(arrays=arrays, losses=ocp.args.JsonSave(losses)))

    @oplib.no_grad()
    def load(self, tensors: Mapping[str, Tensor]) -> list[float]:
        """Reads the last checkpoint into Tensors, which keep their layouts, and returns the losses.

        Raises:
            ValueError: it has other names, shapes or dtypes. Orbax would cast to another dtype silently.
        """
        stored = self._manager.item_metadata(self.latest)["arrays"].tree
        for name, tensor in tensors.items():
            part = stored.get(name, tensor)
            if (part.dtype, part.shape) != (tensor.dtype, tensor.shape):
                raise ValueError(
                    f"checkpoint {self.latest}: {name} is {part.dtype}{list(part.shape)}, the run has "
                    f"{tensor.dtype}{list(tensor.shape)}"
                )
        targets = {name: ocp.utils.to_shape_dtype_struct(tensor.array) for name, tensor in tensors.items()}
        parts = ocp.args.Composite(arrays=ocp.args.StandardRestore(targets), losses=ocp.args.JsonRestore())
        read = self._manager.restore(self.latest, args=parts)
        for name, tensor in tensors.items():
            tensor.copy_(Tensor.from_array(read["arrays"][name]))
        return read["losses"]
