"""Autocast: ops that run in a narrower or a wider dtype than that of their arguments."""
