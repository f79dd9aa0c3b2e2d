"""All forms of calls, and the values that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .forms_of_fourier import FOURIER
from .forms_of_layers import LAYERS
from .forms_of_losses import LOSSES
from .forms_of_names import NAMES
from .forms_of_networks import NETWORKS
from .forms_of_shapes import SHAPES
from .forms_of_special import SPECIAL
from .forms_of_statistics import STATISTICS
from .forms_of_triangles import TRIANGLES

FORMS = (*SHAPES, *NETWORKS, *LAYERS, *LOSSES, *STATISTICS, *FOURIER, *SPECIAL, *TRIANGLES, *NAMES)


def draw_data() -> dict[str, np.ndarray]:
    """Returns the numbers of the tensors, by the names that forms use."""
    random = np.random.default_rng(3)
    return {
        "x": np.round(random.normal(size=(2, 3)), 3),
        "v": np.round(random.normal(size=7), 3),
        "cube": np.round(random.normal(size=(2, 3, 4)), 3),
        "square": np.round(random.normal(size=(3, 3)) + 3 * np.eye(3), 3),
        "image": np.round(random.normal(size=(2, 2, 5, 6)), 3),
    }


def name_values(lib: Any, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the names that a form may use: the library, its networks, the tensors, and a tensor of ints."""
    integers = lib.tensor([[0, 2, 1], [3, 0, 0]])
    return {"lib": lib, "F": lib.nn.functional, **tensors, "i": integers}
