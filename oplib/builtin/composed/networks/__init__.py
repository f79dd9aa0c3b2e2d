"""Functions of ``torch.nn.functional`` made of several ops."""
