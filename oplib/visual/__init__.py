"""What can be seen: graphs as text, and the table of the rules of ops."""

from .rules import OpsTable
from .rules import tabulate_rules as ops
from .text import graph_text

__all__ = ["OpsTable", "graph_text", "ops"]
