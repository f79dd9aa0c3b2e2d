"""Equal keys stand for programs that compute the same."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive

import oplib
from oplib.library.jax_primitives.program_key import read_program

X = np.arange(3, dtype=np.float32)


def key(function, *arrays):
    return read_program(jax.make_jaxpr(function)(*arrays or (X,)).jaxpr)


def test_two_traces_of_one_computation_have_one_key():
    assert key(lambda x: oplib.ops.oplib.mul(x, x) + 1.0) == key(lambda y: oplib.ops.oplib.mul(y, y) + 1.0)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: (x * 2.0, x),
        lambda x: (x, x + x),
        lambda x: (x - 2.0, x + x),
        lambda x: (x * 3.0, x + x),
        lambda x: (2.0 * x, x + x[::-1]),
        lambda x: (x * np.float32(2.0) * 1.0, x + x),
    ],
)
def test_other_steps_numbers_operands_or_results_have_another_key(other):
    assert key(lambda x: (x * 2.0, x + x)) != key(other)


def test_zeros_of_two_signs_have_two_keys():
    assert key(lambda x: x * 0.0) != key(lambda x: x * -0.0)


def test_literals_are_compared_by_all_their_bits():
    nan = np.float32(np.nan)
    assert key(lambda x: x * nan) != key(lambda x: x * -nan)
    tables = np.zeros((2, 4000), np.float32)
    tables[1, 2000] = 1  # where a text of the array has dots
    jax.config.update("jax_use_simplified_jaxpr_constants", True)
    try:
        keys = [key(lambda x, table=table: x + table, tables[0]) for table in (*tables, tables[1].copy())]
    finally:
        jax.config.update("jax_use_simplified_jaxpr_constants", False)
    assert keys[0] != keys[1]
    assert keys[1] == keys[2]


def test_other_shapes_dtypes_and_constants_have_another_key():
    double = key(lambda x: x + x)
    assert double != key(lambda x: x + x, X[:2])
    assert double != key(lambda x: x + x, X.astype(np.int32))
    assert key(lambda x: x + X) != key(lambda x: x + X[:1])
    assert key(lambda x, y: x - y, X, X) != key(lambda x, y: y - x, X, X)


def test_static_arguments_of_an_op_are_part_of_the_key():
    t = np.ones((2, 3), np.float32)
    sums = [key(lambda x, dim=dim: oplib.ops.oplib.sum(x, [dim]), t[:, :2]) for dim in (0, 1, 1)]
    assert sums[1] == sums[2]
    assert sums[0] != sums[1]


def test_an_op_with_another_kernel_has_another_key():
    library = oplib.library.Library("program_key", "DEF")
    library.define("f(Tensor x) -> Tensor")
    keys = []
    for number in (1, 2):
        kernels = oplib.library.Library("program_key", "IMPL")
        kernels.impl("f", lambda x, number=number: x + number, "default")
        keys.append(key(lambda x: oplib.ops.program_key.f(x)))
        kernels._destroy()
    assert keys[0] != keys[1]


def test_effects_loops_and_local_ops_have_no_key():
    def report(x):
        jax.debug.callback(lambda value: None, x)
        return x

    @oplib.custom_op
    def local(x: jax.Array) -> jax.Array:
        return x * 2

    for function in (report, lambda x: jax.lax.fori_loop(0, 3, lambda _, y: y * 2, x), local):
        for form in (function, jax.jit(function)):
            with pytest.raises(TypeError):
                key(form)


def test_a_key_goes_through_the_bodies_of_compiled_functions():
    keys = [key(jax.jit(lambda x, number=number: jax.jit(jnp.sin)(x) * number)) for number in (2.0, 3.0, 2.0)]
    assert keys[0] == keys[2]
    assert keys[0] != keys[1]
    assert key(jax.jit(lambda x: jnp.sin(x))) != key(jax.jit(lambda x: jnp.cos(x)))


def test_a_parameter_without_a_hash_leaves_a_key_without_one():
    primitive = Primitive("unhashable")
    primitive.def_abstract_eval(lambda aval, **_: aval)
    with pytest.raises(TypeError):
        hash(key(lambda x: primitive.bind(x, table=[1])))
