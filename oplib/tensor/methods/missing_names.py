"""Names of torch that Tensor does not have. Reading one says what to use instead."""

from __future__ import annotations

from oplib.torch_names import HINTS, MissingAttribute

MISSING = HINTS["Tensor"]


class TensorMissingNames:
    """Mixin whose attributes raise AttributeError, see :class:`oplib.torch_names.MissingAttribute`."""


for _name in MISSING:
    setattr(TensorMissingNames, _name, MissingAttribute(_name))
