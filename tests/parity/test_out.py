"""Results written into a tensor that is given, beside torch."""

import pytest

import oplib
from oplib.errors import ArgumentError, TracingError

from .programs import shaped_leaf

OUT = {
    "add": lambda lib, x, out: lib.add(x, 1, alpha=2, out=out),
    "sub": lambda lib, x, out: lib.sub(x, x, out=out),
    "mul": lambda lib, x, out: lib.mul(x, 2.5, out=out),
    "div": lambda lib, x, out: lib.div(x, x, out=out),
    "matmul": lambda lib, x, out: lib.matmul(x, x, out=out),
    "exp": lambda lib, x, out: lib.exp(x, out=out),
    "sin": lambda lib, x, out: lib.sin(x, out=out),
    "cos": lambda lib, x, out: lib.cos(x, out=out),
    "sum": lambda lib, x, out: lib.sum(x, 0, keepdim=True, out=out),
    "cat": lambda lib, x, out: lib.cat([x, x], 1, out=out),
}
OUTS = {
    "empty": lambda lib: lib.zeros(0),
    "fitting": lambda lib: lib.zeros(3, 3),
    "view": lambda lib: lib.zeros(2, 3, 3)[1],
    "integers": lambda lib: lib.zeros(3, 3, dtype=lib.int32),
    "leaf": lambda lib: lib.zeros(3, 3, requires_grad=True),
    "complex": lambda lib: lib.zeros(3, 3, dtype=lib.complex64).real,
}


@pytest.mark.parametrize("name", OUT)
def test_a_result_is_written_into_the_tensor_that_is_given(assert_agrees, name):
    def program(lib):
        out = lib.zeros(0)
        x = shaped_leaf(lib, 3, 3)
        with lib.no_grad():
            returned = OUT[name](lib, x, out)
        return returned is out, out, out._version > 0

    assert_agrees(program)


@pytest.mark.parametrize("kind", OUTS)
def test_where_a_result_is_written_it_has_the_dtype_of_the_place(assert_agrees, kind):
    def program(lib):
        out = OUTS[kind](lib)
        lib.mul(lib.ones(3, 3), 2.5, out=out)
        return out, out._base if out._base is None or kind == "view" else None

    assert_agrees(program)


SUMS = ("sum", "prod", "cumsum", "cumprod")


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in SUMS for kind in ("float32", "float16", "int8")]
    + [("sum", "bool"), ("prod", "bool")],  # there are no cumulative ones of bools
)
def test_sums_and_products_are_computed_in_the_dtype_of_out(assert_agrees, name, kind):
    def program(lib):
        x = lib.tensor([2**30 + 1] * 3, dtype=lib.int32)  # an int32 would not hold the result
        return getattr(lib, name)(x, 0, out=lib.zeros(0, dtype=getattr(lib, kind)))

    assert_agrees(program)


@pytest.mark.parametrize("name", SUMS)
def test_complex_sums_and_products_are_not_written_into_a_real_out(name):
    x, out = oplib.tensor([1j, 2.0]), oplib.zeros(0)
    with pytest.raises(ArgumentError, match="ComplexFloat can't be cast to the desired output type Float"):
        getattr(oplib, name)(x, 0, out=out)
    assert out.tolist() == []


def test_nothing_is_recorded_with_out(assert_agrees):
    assert_agrees(lambda lib: lib.add(shaped_leaf(lib, 3), 1, out=lib.zeros(3)))


@pytest.mark.spec("000.25")
def test_a_saved_tensor_that_out_overwrites_is_found_by_its_version(assert_agrees):
    def program(lib):
        y = shaped_leaf(lib, 3) * 1
        z = y.detach()
        loss = (y * y).sum()
        lib.add(lib.ones(3), 1, out=z)
        loss.backward()

    assert_agrees(program)


SHARERS = {
    "view": lambda b: b.view(-1),
    "row": lambda b: b[0],
    "transposed": lambda b: b.t(),
    "detached": lambda b: b.detach(),
}


@pytest.mark.parametrize("kind", SHARERS)
def test_views_see_what_is_written_into_a_tensor_of_their_shape(assert_agrees, kind):
    def program(lib):
        b = lib.zeros(2, 3)
        v = SHARERS[kind](b)
        lib.sum(lib.arange(24.0).reshape(4, 2, 3), 0, out=b)
        return b, v, v._version > 0

    assert_agrees(program)


@pytest.mark.parametrize("kind", SHARERS)
@pytest.mark.parametrize("shape", [(4, 5), (4, 2, 6), (4, 6)])
def test_a_tensor_whose_memory_others_share_takes_no_other_shape(kind, shape):
    """torch resizes the memory under them; a view would show items that are not there."""
    b = oplib.zeros(2, 3)
    v = SHARERS[kind](b)
    with pytest.raises(ArgumentError, match=r"sum: the tensor must be resized from 6 to .* share its memory"):
        oplib.sum(oplib.ones(*shape), 0, out=b)
    assert v.sum().item() == 0


def test_in_a_compiled_function_a_captured_tensor_keeps_its_size():
    out = oplib.zeros(0)

    @oplib.jit
    def step(x):
        oplib.add(x, 1, out=out)
        return out * 2

    with pytest.raises(TracingError, match=r"step: add at .* resizes a tensor from outside, from 0 to 3"):
        step(oplib.ones(3))
    assert out.shape == (0,)


OVERLAPS = {
    "sin": (lambda lib, x, **out: lib.sin(x[:-1], **out), lambda x: x[1:]),
    "add": (lambda lib, x, **out: lib.add(x[:4], x[4:8], **out), lambda x: x[2:6]),
    "mul": (lambda lib, x, **out: lib.mul(x[:9].view(3, 3).t(), 2, **out), lambda x: x[:9].view(3, 3)),
    "sum": (lambda lib, x, **out: lib.sum(x.view(3, 4), 0, **out), lambda x: x[2:6]),
    "cumsum": (lambda lib, x, **out: lib.cumsum(x[:-1], 0, **out), lambda x: x[1:]),
    "matmul": (
        lambda lib, x, **out: lib.matmul(x[:4].view(2, 2), x[4:8].view(2, 2), **out),
        lambda x: x[2:6].view(2, 2),
    ),
    "cat": (lambda lib, x, **out: lib.cat([x[:3], x[3:6]], **out), lambda x: x[2:8]),
    "where": (lambda lib, x, **out: lib.where(x[:4] > 1, x[:4], x[4:8], **out), lambda x: x[2:6]),
    "items between": (lambda lib, x, **out: lib.sin(x[::2], **out), lambda x: x[1::2]),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_operands_that_share_memory_with_out_are_read_before_it_is_written(name):
    """torch refuses most of these, and where it does not, it reads items that it has written."""
    torch = pytest.importorskip("torch")
    compute, place = OVERLAPS[name]
    theirs, ours = torch.arange(12.0), oplib.arange(12.0)
    place(theirs).copy_(compute(torch, theirs.clone()))
    compute(oplib, ours, out=place(ours))
    assert ours.numpy() == pytest.approx(theirs.numpy(), rel=1e-6)


def test_a_place_that_shows_an_item_twice_is_refused_as_torch_refuses_it(assert_agrees):
    assert_agrees(lambda lib: lib.sin(lib.ones(3, 12), out=lib.zeros(12).expand(3, 12)))
