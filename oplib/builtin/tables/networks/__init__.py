"""The ops of neural networks, except losses."""
