"""Functions that make Tensors: from data, from a shape and a rule, or like another Tensor."""
