"""The graph: nodes and edges, accumulators of leaves, and how gradients are represented."""
