"""The origin of a node: its sequence number, and the line of the call that made it."""

from __future__ import annotations

from typing import Any

from oplib.autograd.anomaly_mode import note_anomaly
from oplib.autograd.nodes.locations import note_location
from oplib.autograd.nodes.node import TapeNode
from oplib.autograd.nodes.scopes import note_scope
from oplib.config import config
from oplib.modes import ModeState


def number_node(node: Any, state: ModeState) -> None:
    """Gives a node the next number of its thread. The latest ready node runs first."""
    node.sequence_nr = state.sequence_nr
    state.sequence_nr += 1


def enter_node(node: Any, state: ModeState) -> Any:
    """Numbers the node of a call, notes the line of the call, and returns the node."""
    node.sequence_nr = state.sequence_nr  # as number_node, inlined
    state.sequence_nr += 1
    note_origin(node, state)
    return node


def note_origin(node: TapeNode, state: ModeState) -> None:
    """Notes the line, or under anomaly detection the whole stack, of the call that made a node.

    While a function is traced, it notes the ``jax.named_scope`` of the call too.
    """
    if state.watchers:
        note_scope(node)
    if state.anomaly:
        note_anomaly(node, state.run)
    elif config.record_lines and state.locations:
        note_location(node, state.run)


def inherit_origin(node: TapeNode, source: Any) -> None:
    """Copies the origin of another node, if it is known."""
    if isinstance(source, TapeNode):
        if source._scope is not None:
            node._scope = source._scope
        if source._location is not None:
            node._location = source._location
        if source._metadata is not None and "traceback_" in source._metadata:
            node.metadata["traceback_"] = source._metadata["traceback_"]
