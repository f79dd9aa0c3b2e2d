"""The op objects that users hold, their lookup by name, and the observers of their calls."""
