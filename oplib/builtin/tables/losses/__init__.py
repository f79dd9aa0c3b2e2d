"""The loss functions."""
