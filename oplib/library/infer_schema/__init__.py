"""Inference from annotations: the schema of an op, and the kind of a kernel."""

from .inference import infer_function_schema, infer_schema
from .kinds import Kind, infer_kind

__all__ = ["Kind", "infer_function_schema", "infer_kind", "infer_schema"]
