"""Ops that move items: views, copies, joins."""
