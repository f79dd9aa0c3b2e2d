"""Tests of ops and of programs on Tensors: comparison of values, samples of calls, and ``opcheck`` by pytest.

The pytest plugin comes with the package. It gives the fixtures ``x64``, ``seed``, ``devices`` and
``no_leftovers``. Only :func:`ops` needs pytest.
"""

import typing as _typing

from oplib.importing import LateImports as _LateImports
from oplib.torch_names import make_dir as _make_dir

from .closeness import assert_close
from .samples import Call, add_samples, samples

if _typing.TYPE_CHECKING:
    from .op_tests import OpCase, parametrize_ops as ops

__all__ = ["Call", "OpCase", "add_samples", "assert_close", "ops", "samples"]
__dir__ = _make_dir(globals())

_late = _LateImports(__name__, {"OpCase": "op_tests", "parametrize_ops": "op_tests"})


def __getattr__(name: str) -> _typing.Any:
    return _late.find("parametrize_ops" if name == "ops" else name)
