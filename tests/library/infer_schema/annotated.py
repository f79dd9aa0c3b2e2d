"""Functions with annotations chosen by a test."""

from typing import Any, Optional  # noqa: F401  hints that are strings name it, and are read here

from oplib.library.infer_schema import infer_schema
from oplib.library.schema import parse_schema
from oplib.tensor import Tensor  # noqa: F401  as above


def annotate(hint: Any, returned: Any = None, **defaults: Any):
    """A function of one parameter ``v`` with this annotation."""

    def fn(v):
        pass

    fn.__annotations__ = {"v": hint, "return": returned}
    fn.__defaults__ = tuple(defaults.values())
    return fn


def infer_type(hint: Any) -> str:
    text = infer_schema(annotate(hint))
    assert str(parse_schema(f"f{text}")) == f"f{text}"
    return text.removeprefix("(").removesuffix(" v) -> ()")
