"""From a function's annotations to the schema of an op, and to the kind of kernel it is."""

from .inference import infer_function_schema, infer_schema
from .kinds import Kind, infer_kind

__all__ = ["Kind", "infer_function_schema", "infer_kind", "infer_schema"]
