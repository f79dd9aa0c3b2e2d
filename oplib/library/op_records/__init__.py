"""The description of an op: its name, its contributions, and the frozen record made of them."""
