"""Values of a HiType of JAX, which ops do not take."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import hijax

import oplib
from oplib.errors import OplibError


@dataclass(frozen=True)
class Box:
    array: Any


@dataclass(frozen=True)
class BoxType(hijax.HiType):
    shape: tuple[int, ...]

    def lo_ty(self) -> list[Any]:
        return [jax.core.ShapedArray(self.shape, jnp.dtype("float32"))]

    def lower_val(self, value: Box) -> list[Any]:
        return [value.array]

    def raise_val(self, array: Any) -> Box:
        return Box(array)


hijax.register_hitype(Box, lambda box: BoxType(box.array.shape))


def on_any(x: Any) -> jax.Array:
    return jnp.zeros(2)


def on_array(x: jax.Array) -> jax.Array:
    return x


@pytest.mark.parametrize("kernel", [on_any, on_array])
def test_a_value_of_a_HiType_is_refused_with_a_cure(kernel):
    op = oplib.library.custom_op(kernel)
    with pytest.raises(
        OplibError, match=r"a value of the HiType .* is no array.* make it again from the results"
    ) as e:
        jax.jit(op)(Box(jnp.ones(2)))
    assert "a defect of oplib" not in str(e.value)


def test_a_result_of_a_HiType_is_refused_with_a_cure():
    box = Box(jnp.ones(2))

    def return_it(x: jax.Array) -> Any:
        return boxes[0]

    op, boxes = oplib.library.custom_op(return_it, compile=False), []
    with pytest.raises((OplibError, TypeError), match=r"a value of the HiType .* is no array"):
        jax.jit(lambda box, x: boxes.append(box) or op(x))(box, jnp.ones(2))
