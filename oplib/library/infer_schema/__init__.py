"""Inference from annotations: the schema of an op, and the kind of a kernel."""

from .inference import Kind, infer_function_schema, infer_kind, infer_schema, takes_anything

__all__ = ["Kind", "infer_function_schema", "infer_kind", "infer_schema", "takes_anything"]
