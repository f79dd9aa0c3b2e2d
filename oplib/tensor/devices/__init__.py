"""Devices, shardings, and the state of forked processes."""
