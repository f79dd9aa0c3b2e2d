"""Forms of subscripts that torch takes and warns of, and matrices and slices of nothing, beside torch."""

import warnings

import jax
import numpy as np
import pytest

import oplib
from oplib.errors import TracingError

torch = pytest.importorskip("torch")


def grid(library):
    return library.arange(12.0).reshape(3, 4)


def tensor_of_bytes(library, *values):
    return library.tensor(values, dtype=library.uint8)


def run_and_catch(function):
    """Returns values, the kind of the error, and how many warnings came."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = np.asarray(function())
            result = (found.shape, found.tolist())
        except (IndexError, RuntimeError, TypeError) as error:
            result = next(kind for kind in (IndexError, TypeError, RuntimeError) if isinstance(error, kind))
    return result, len(caught)


def write(library, index, value):
    whole = grid(library)
    whole[index] = value
    return whole


NESTED = [
    [[0, 1], [1, 2]],
    [[0, 1]],
    [[0, 1], [1, 2], [2, 3]],
    ((0, 1), (2,)),
    ((0, 1), (2, 3)),
    [(0, 1), (1, 2)],
    [0, slice(None)],
    [[[0, 1], [1, 2]]],
    ([[0, 1], [1, 2]],),
    ([[0, 1], [1, 2]], 0),
    [[True, False, True]],
    [None, 0],
    [..., 0],
    [[0, 1], 2],
    (((0, 1),),),
    [[]],
    [],
    ((),),
    ((), ()),
    ([[]],),
    [[0, 1]] * 31,
    [[0, 1]] * 32,
    [0] * 40,
    [range(2), range(2)],
    (range(2), range(2)),
]


@pytest.mark.parametrize("index", NESTED, ids=lambda index: repr(index)[:40])
def test_nested_sequences_name_the_items_that_they_name_in_torch(index):
    assert run_and_catch(lambda: grid(oplib)[index]) == run_and_catch(lambda: grid(torch)[index])


@pytest.mark.parametrize("index", NESTED, ids=lambda index: repr(index)[:40])
def test_nested_sequences_are_written_where_torch_writes(index):
    assert run_and_catch(lambda: write(oplib, index, -1.0)) == run_and_catch(
        lambda: write(torch, index, -1.0)
    )


BYTES = {
    "alone": lambda library: tensor_of_bytes(library, 1, 0, 1),
    "other than 1": lambda library: tensor_of_bytes(library, 2, 0, 1),
    "too short": lambda library: tensor_of_bytes(library, 1, 0),
    "of the whole": lambda library: library.ones((3, 4), dtype=library.uint8),
    "behind a slice": lambda library: (slice(None), tensor_of_bytes(library, 1, 0, 0, 1)),
    "behind a number": lambda library: (0, tensor_of_bytes(library, 1, 0, 0, 1)),
    "beside places": lambda library: (tensor_of_bytes(library, 1, 0, 1), library.tensor([0, 1])),
    "in a list": lambda library: [tensor_of_bytes(library, 1, 0, 1), 0],
    "array": lambda library: np.array([1, 0, 1], np.uint8),
    "scalar": lambda library: library.tensor(2, dtype=library.uint8),
    "scalar of 0": lambda library: library.tensor(0, dtype=library.uint8),
    "scalar behind a slice": lambda library: (slice(None), library.tensor(1, dtype=library.uint8)),
}


@pytest.mark.parametrize("make_index", BYTES.values(), ids=BYTES)
def test_a_tensor_of_bytes_is_a_mask_and_warned_of_as_in_torch(make_index):
    found, wanted = (run_and_catch(lambda lib=lib: grid(lib)[make_index(lib)]) for lib in (oplib, torch))
    assert found == wanted


@pytest.mark.parametrize("value", [-1.0, [-1.0, -2.0]], ids=["number", "tensor"])
@pytest.mark.parametrize("make_index", BYTES.values(), ids=BYTES)
def test_bytes_are_written_to_or_refused_as_in_torch(make_index, value):
    def run(library):
        given = library.tensor(value) if isinstance(value, list) else value
        result, warned = run_and_catch(lambda: write(library, make_index(library), given))
        return (result, warned) if isinstance(result, tuple) else result  # an error says enough

    assert run(oplib) == run(torch)


@pytest.mark.filterwarnings("ignore:index. indexing with dtype uint8")
@pytest.mark.parametrize("dtype", [np.bool_, np.uint8])
@pytest.mark.parametrize("shape", [(3,), (3, 4), ()], ids=str)
def test_traced_bytes_are_refused_as_a_traced_mask_is(dtype, shape):
    with pytest.raises(TracingError, match="the number of items under a traced mask"):
        jax.jit(lambda mask: grid(oplib)[oplib.Tensor.from_array(mask)].numpy())(np.ones(shape, dtype))


def test_the_warning_names_the_line_of_the_user():
    with pytest.warns(UserWarning, match="dtype uint8 is now deprecated") as caught:
        grid(oplib)[tensor_of_bytes(oplib, 1, 0, 1)]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("shape", [(0, 0), (2, 0), (0, 2), (3, 2, 0), (0, 2, 2)], ids=str)
def test_a_matrix_of_nothing_has_the_rank_that_torch_finds(shape):
    found, wanted = oplib.linalg.matrix_rank(oplib.ones(shape)), torch.linalg.matrix_rank(torch.ones(shape))
    assert np.asarray(found).tolist() == wanted.tolist()


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0)], ids=str)
@pytest.mark.parametrize("name", ["det", "matrix_exp", "slogdet", "inv"])
def test_functions_of_matrices_of_nothing_have_torchs_values_and_gradients(name, shape):
    def run(library):
        given = library.ones(shape, requires_grad=True)
        found = getattr(library.linalg, name)(given)
        found = found[1] if name == "slogdet" else found
        (grad,) = library.autograd.grad(found.sum(), given)
        return tuple(found.shape), found.tolist(), tuple(grad.shape)

    assert run(oplib) == run(torch)


@pytest.mark.parametrize("name", ["trapezoid", "cumulative_trapezoid"])
def test_the_integral_over_nothing_is_that_of_torch(name):
    for shape, dim in (((0,), 0), ((2, 0), -1), ((0, 3), 0), ((3, 0, 2), 1)):
        found, wanted = (getattr(lib, name)(lib.ones(shape), dim=dim) for lib in (oplib, torch))
        assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("p", [None, -2, "fro", 1])
def test_the_condition_of_a_matrix_of_nothing_is_0_as_in_torch(p):
    for shape in ((0, 0), (2, 0, 0), (0, 2, 2)):
        assert (
            oplib.linalg.cond(oplib.ones(shape), p).tolist()
            == torch.linalg.cond(torch.ones(shape), p).tolist()
        )


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0)], ids=str)
@pytest.mark.parametrize("name", ["eig", "eigvals"])
def test_eigenvalues_of_nothing_have_a_gradient_of_nothing(name, shape):
    """Torch's sum of them has one too, if it is no sum of their parts."""

    def run(library):
        given = library.ones(shape, requires_grad=True)
        found = getattr(library.linalg, name)(given)
        values = found[0] if name == "eig" else found
        (grad,) = library.autograd.grad(values.sum().real, given)
        return tuple(values.shape), str(values.dtype).split(".")[-1], tuple(grad.shape)

    assert run(oplib) == run(torch)


@pytest.mark.parametrize("dims", [0, -1, 1, (0, 0)], ids=str)
def test_a_tensor_without_dims_is_not_rolled_along_one(dims):
    shifts = 1 if isinstance(dims, int) else (1, 1)
    for library in (torch, oplib):
        with pytest.raises(IndexError, match="but tensor has no dimensions"):
            library.tensor(1.5).roll(shifts, dims)


@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
@pytest.mark.parametrize("shape", [(2, 0, 3), (0, 3), (0, 0), (2, 0, 0)], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_slices_without_items_are_refused_where_torch_refuses(name, shape, dim):
    found, wanted = (
        run_and_catch(lambda lib=lib: getattr(lib, name)(lib.ones(shape), dim=dim)) for lib in (oplib, torch)
    )
    assert found == wanted
