"""The op objects that users hold, how they are found by name, and who sees their calls."""
