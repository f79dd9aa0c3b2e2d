"""The op objects that users hold, and how they are found by name."""
