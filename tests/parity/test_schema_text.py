"""Schemas print as torch prints them."""

import pytest

from oplib.library.schema import parse_schema

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    "text",
    [
        "f(Tensor(a!) x, *, int y=3) -> (Tensor(a!) out, int)",
        "f(Tensor(a -> *) x) -> Tensor(*)[]",
        "f(Tensor(a!)[](b) x, Tensor(c!)[]? y, Tensor[](d!) z) -> ()",
        'f(int[] x=[1, 2], float y=3., float z=-0.001, bool b=True, str s="a\\"b") -> ((Tensor))',
        "f(float[] x=[1., 2.], int? y=None, Scalar s=1.5, bool[3]? m=None) -> ()",
        "f((int, int) x, int[][] y, Tensor?[]? z) -> ((Tensor, Tensor), int)",
    ],
)
def test_torch_prints_the_same_canonical_text(text):
    assert str(torch._C.parse_schema(text)) == str(parse_schema(text)) == text
