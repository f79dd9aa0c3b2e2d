"""Checkpoints: regions whose forward runs again for the backward."""
