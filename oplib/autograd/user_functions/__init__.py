"""``Function``: operations whose forward and backward are Python code of the user."""
