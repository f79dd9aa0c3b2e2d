"""Functions whose effect is not in their result: warnings, and writes."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

import oplib
from oplib.errors import (
    ArgumentError,
    ArgumentValueError,
    DimensionError,
    TracingError,
    UnsupportedArgumentError,
)
from oplib.nn import functional


def test_rows_that_are_too_long_are_shortened_in_the_table_and_others_left():
    table = oplib.tensor([[3.0, 4.0], [6.0, 8.0]], requires_grad=True)
    found = functional.embedding(oplib.tensor([0, 0]), table, max_norm=1.0)
    assert found.tolist() == table.tolist()[:1] * 2
    assert table[0].norm().item() == pytest.approx(1.0, abs=1e-5)
    assert table[1].tolist() == [6.0, 8.0]


def test_a_dtype_may_be_asked_whether_it_is_floating_or_complex():
    for dtype in (oplib.float16, oplib.bfloat16, oplib.float64, oplib.float8_e5m2):
        assert oplib.is_floating_point(dtype)
        assert not oplib.is_complex(dtype)
    assert oplib.is_complex(oplib.complex64)
    assert not oplib.is_floating_point(oplib.int8)
    assert not oplib.is_floating_point(oplib.bool)
    assert oplib.is_floating_point(jnp.float32)  # JAX's scalar type


def test_sparse_gradients_and_tables_that_are_no_tensors_are_refused():
    places = oplib.tensor([0])
    with pytest.raises(UnsupportedArgumentError, match="embedding: there are no sparse gradients"):
        functional.embedding(places, oplib.ones(2, 2), sparse=True)
    with pytest.raises(ArgumentError, match="max_norm writes into the weight, and only a Tensor"):
        functional.embedding(places.array, oplib.ones(2, 2).array, max_norm=1.0)


def test_places_and_table_of_an_embedding_that_are_exchanged_are_refused_and_first_the_dtype():
    with pytest.raises(ArgumentError, match=r"embedding: 'weight' must be 2-D\. Got .* weight i32\[1\]"):
        functional.embedding(oplib.tensor([[0, 0]]), oplib.tensor([0]))
    with pytest.raises(ArgumentError, match=r"embedding: expected integers for indices\. Got input f32\[1\]"):
        functional.embedding(oplib.tensor([7.0]), oplib.ones(2, 2))


@pytest.mark.parametrize("name", ["nll_loss", "cross_entropy"])
def test_a_loss_of_classes_complains_by_its_own_name(name):
    loss = getattr(functional, name)
    with pytest.raises(ArgumentValueError, match=f"^{name}: 'x' is not a valid value for reduction"):
        loss(oplib.ones(2, 2), oplib.tensor([0, 1]), reduction="x")
    with pytest.raises(ArgumentValueError, match=f"^{name}: expected a target of shape"):
        loss(oplib.ones(3, 2), oplib.tensor([0, 1]))


def test_a_target_that_is_broadcast_is_warned_of():
    with pytest.warns(UserWarning, match="mse_loss: Using a target size"):
        functional.mse_loss(oplib.ones(2, 1), oplib.ones(2))


def test_weights_of_another_size_are_refused():
    with pytest.raises(ArgumentValueError, match="l1_loss: weights and input must have the same size"):
        functional.l1_loss(oplib.ones(2), oplib.ones(2), weight=oplib.ones(3))


def test_least_squares_have_residuals_rank_and_singular_values():
    matrix = oplib.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    found = oplib.linalg.lstsq(matrix, oplib.ones(3, 1), driver="gelsd")
    assert found.solution.tolist() == [[1.0], [0.5]]
    assert found.residuals.tolist() == pytest.approx([1.0])
    assert found.rank.item() == 2
    assert found.singular_values.tolist() == pytest.approx([2.0, 1.0])


def test_a_quantile_moves_with_its_part_by_the_gap_between_neighbours():
    part = oplib.tensor(0.3, requires_grad=True)
    (gradient,) = oplib.autograd.grad(oplib.quantile(oplib.tensor([1.0, 5.0, 2.0]), part), part)
    assert gradient.item() == pytest.approx(2 * (2.0 - 1.0))
    slope = jax.grad(lambda q: oplib.quantile(jnp.array([1.0, 5.0, 2.0]), q))(jnp.float32(0.3))
    assert slope == pytest.approx(2.0)
    stepped = oplib.quantile(oplib.tensor([1.0, 5.0, 2.0]), part, interpolation="lower")
    assert not stepped.requires_grad


def test_functions_that_read_values_raise_under_a_trace():
    with pytest.raises(TracingError, match=r"bincount: .* not known under a trace"):
        jax.jit(oplib.bincount)(jnp.array([1, 2]))


def test_a_dim_that_is_not_there_is_named():
    x = oplib.ones(2, 3)
    for call in (oplib.diff, oplib.trapezoid, oplib.cumulative_trapezoid, partial(oplib.quantile, q=0.5)):
        with pytest.raises(
            DimensionError, match=r"dimension out of range \(expected .* \[-2, 1\], but got 7"
        ):
            call(x, dim=7)
    with pytest.raises(DimensionError, match=r"trapezoid: expects a dim to integrate along\. Got y f32\[\]"):
        oplib.trapezoid(oplib.tensor(1.0))
    assert oplib.quantile(oplib.tensor(2.0), 0.5, 0).item() == 2.0


def test_weights_of_a_count_are_as_many_as_its_items():
    with pytest.raises(ArgumentError, match=r"bincount: weights .* Got input i32\[2\], weights f32\[3\]"):
        oplib.bincount(oplib.tensor([1, 2]), oplib.ones(3))


@pytest.mark.parametrize("dtype", [oplib.int32, oplib.float16, oplib.bool])
def test_weights_of_few_bits_are_summed_in_the_widest_floats(dtype):
    weights = oplib.ones(2, dtype=dtype)
    found = oplib.bincount(oplib.tensor([1, 1]), weights)
    assert (found.dtype, found.tolist()) == (oplib.float32, [0.0, 2.0])
    if weights.is_floating_point():
        weights.requires_grad_()
        oplib.bincount(oplib.tensor([1, 0]), weights)[1].backward()
        assert weights.grad.tolist() == [1.0, 0.0]


@pytest.mark.devices(2)
def test_results_of_functions_that_read_values_are_on_the_same_device():
    there = jax.devices()[1]
    x = oplib.tensor([0, 3, 3], device=there)
    found = [oplib.nonzero(x), oplib.unique(x), oplib.repeat_interleave(x), oplib.bincount(x)]
    assert {device for one in found for device in one.array.devices()} == {there}
    assert type(oplib.bincount(x.array)) is type(x.array)


@pytest.mark.parametrize("library", [oplib, jnp])
def test_a_number_keeps_its_fraction_where_it_is_looked_up_among_ints(library):
    edges = oplib.tensor([0, 1, 2]) if library is oplib else jnp.arange(3)
    assert oplib.searchsorted(edges, 0.5).item() == 1
    assert oplib.bucketize(0.5, edges).item() == 1


@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
def test_running_moments_that_do_not_fit_leave_both_as_they_were(name):
    x, mean = oplib.ones(2, 2, 3), oplib.zeros(2)
    for variance in (oplib.ones(3), oplib.ones(2, dtype=oplib.int32), oplib.ones(2, requires_grad=True)):
        with pytest.raises(
            ArgumentError, match=rf"{name}: argument 'running_var' is to hold one n.*anew: f32\[2\]"
        ):
            getattr(functional, name)(x, mean, variance, None, None, True)
    assert mean.tolist() == [0.0, 0.0]


def test_running_moments_stay_where_there_is_nothing_to_move_them():
    mean, variance = oplib.zeros(2), oplib.ones(2)
    functional.batch_norm(oplib.ones(0, 2, 3), mean, variance, training=True)
    assert mean.tolist() + variance.tolist() == [0.0, 0.0, 1.0, 1.0]


WARNING = {
    "mse_loss": lambda: functional.mse_loss(oplib.ones(2, 1), oplib.ones(2)),
    "grid_sample": lambda: functional.grid_sample(oplib.ones(1, 1, 2, 2), oplib.zeros(1, 1, 1, 2)),
    "affine_grid": lambda: functional.affine_grid(oplib.zeros(1, 2, 3), (1, 1, 2, 2)),
    "gumbel_softmax": lambda: functional.gumbel_softmax(oplib.ones(2), eps=1.0, dim=0),
    "dropout2d": lambda: functional.dropout2d(oplib.ones(2, 1, 3)),
    "istft": lambda: oplib.istft(oplib.stft(oplib.ones(8), 4, return_complex=True), 4, length=30),
}


@pytest.mark.parametrize("name", WARNING)
def test_a_warning_is_of_the_line_that_called(name):
    with pytest.warns(UserWarning, match=f"^{name}: ") as caught:
        WARNING[name]()
    assert [one.filename for one in caught] == [__file__]
