"""Pictures of graphs and registries, for looking at and for logs."""

from .text import graph_text

__all__ = ["graph_text"]
