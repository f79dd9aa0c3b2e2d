"""Devices and shardings, and what a forked process may do with them."""
