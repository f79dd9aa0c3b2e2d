"""Functions that choose the overload that a call means."""
