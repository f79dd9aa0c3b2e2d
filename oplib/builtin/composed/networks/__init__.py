"""Functions of ``torch.nn.functional`` that are made of several ops."""
