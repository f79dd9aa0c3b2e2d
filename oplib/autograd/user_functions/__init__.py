"""``Function``: forward and backward written by a user in Python."""
