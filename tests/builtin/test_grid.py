"""The grid of built-in ops and checks; ``grid.py`` explains cells and the size of a run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, PartitionSpec as P

from tests.builtin.grid.calls import OPS, assert_close, find_call
from tests.builtin.grid.checks import CHECKS
from tests.builtin.grid.grid import Cell, check_cell, list_cells, list_expected, make_parameters
from tests.builtin.samples.samples import find_samples


@pytest.fixture(autouse=True)
def strict_double():
    """Switches on 64 bits, and JAX's mode without implicit conversion and broadcasting."""
    with jax.enable_x64(True), jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        yield


@pytest.mark.matrix(4)
@pytest.mark.parametrize("cell", make_parameters(CHECKS))
def test_an_op_passes_a_check_on_its_samples(cell: Cell, record_property):
    record_property("cell", [cell.op, cell.check.name, len(cell.numbers)])
    check_cell(cell)


def test_every_built_in_op_has_samples():
    assert not [name for name, op in OPS.items() if not find_samples(op)]


def test_at_most_three_in_a_hundred_cells_are_expected_to_fail():
    cells = list_cells(CHECKS)
    expected = [cell for cell in cells if list_expected(cell)]
    assert len(expected) <= 0.03 * len(cells)


@pytest.mark.devices(2)
@pytest.mark.parametrize(
    "name",
    ["col2im", "linalg_cholesky_ex", "linalg_householder_product", "linalg_ldl_factor", "linalg_ldl_solve"],
)
def test_a_loop_that_begins_with_a_constant_runs_in_shard_map(name: str):
    """JAX requires one type of all carries of a loop, so the constant must vary over the axis too."""
    call = find_call(name, 0)
    mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Auto,), devices=jax.devices()[:2])
    spread = jax.shard_map(
        lambda *arrays: [each[None] for each in call.run(*(each[0] for each in arrays))],
        mesh=mesh,
        in_specs=P("i"),
        out_specs=P("i"),
    )
    results = jax.jit(spread)(*(jnp.stack([jnp.asarray(each)] * 2) for each in call.arrays))
    for device in range(2):
        assert_close([each[device] for each in results], call.run(*map(jnp.asarray, call.arrays)))
