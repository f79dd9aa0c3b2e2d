"""The mixins that make up the class Tensor."""
