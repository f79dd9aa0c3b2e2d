"""How functions of Tensors are traced: what they capture, and what that is while they are traced."""
