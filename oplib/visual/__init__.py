"""Graphs as text, for inspection and for logs."""

from .text import graph_text

__all__ = ["graph_text"]
