"""Checkpoints by orbax, which writes while the next steps run, and reads onto another mesh too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp  # pyright: ignore[reportMissingImports] -- comes with the extra lm


class Checkpoints:
    """The last checkpoints of a run in a folder, which all processes share."""

    def __init__(self, folder: Path) -> None:
        keep = ocp.CheckpointManagerOptions(max_to_keep=2)
        kinds = {"arrays": ocp.StandardCheckpointHandler(), "losses": ocp.JsonCheckpointHandler()}
        self._manager = ocp.CheckpointManager(folder.resolve(), options=keep, item_handlers=kinds)

    @property
    def latest(self) -> int | None:
        """The number of steps before the last complete checkpoint; None if there is none."""
        return self._manager.latest_step()

    def save(self, step: int, arrays: dict[str, Any], losses: list[float]) -> None:
        """Copies the arrays, and writes them in the background."""
        parts = ocp.args.Composite(arrays=ocp.args.StandardSave(arrays), losses=ocp.args.JsonSave(losses))
        self._manager.save(step, args=parts)

    def load(self, arrays: dict[str, Any]) -> tuple[dict[str, Any], list[float]]:
        """Reads the last checkpoint into the shapes, dtypes and shardings of ``arrays``.

        Raises:
            ValueError: it has other names, shapes or dtypes. Orbax would cast to another dtype silently.
        """
        stored = self._manager.item_metadata(self.latest)["arrays"].tree
        parts = dict(jax.tree_util.tree_leaves_with_path(stored))
        for path, array in jax.tree_util.tree_leaves_with_path(arrays):
            part = parts.get(path, array)
            if (part.dtype, part.shape) != (array.dtype, array.shape):
                name = jax.tree_util.keystr(path)
                raise ValueError(
                    f"checkpoint {self.latest}: {name} is {part.dtype}{list(part.shape)}, the run has "
                    f"{array.dtype}{list(array.shape)}"
                )
        targets = jax.tree.map(ocp.utils.to_shape_dtype_struct, arrays)
        items = ocp.args.Composite(arrays=ocp.args.StandardRestore(targets), losses=ocp.args.JsonRestore())
        read = self._manager.restore(self.latest, args=items)
        return read["arrays"], read["losses"]

    def close(self) -> None:
        """Waits until everything is written."""
        self._manager.close()
