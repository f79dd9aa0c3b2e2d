"""Ops of neural networks, without losses."""
