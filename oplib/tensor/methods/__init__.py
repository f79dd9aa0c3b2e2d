"""The mixins of the class Tensor."""
