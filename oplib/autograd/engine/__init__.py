"""The engine: it plans a run, runs nodes in order, validates gradients and calls hooks."""
