"""What oplib knows about an op: its name, its contributions, and the frozen record they add up to."""
