"""The row of a table, and the names of its parameters."""
