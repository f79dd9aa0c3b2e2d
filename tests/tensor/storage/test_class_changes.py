"""Changes of the class of Tensors and storages."""

import re
from pathlib import Path

import oplib
from oplib.tensor.storage.class_changes import change_class


def test_an_object_keeps_its_attributes_under_another_class():
    class Named(oplib.Tensor):
        pass

    tensor = oplib.tensor([1.0, 2.0])
    change_class(tensor, Named)
    assert type(tensor) is Named
    assert tensor.tolist() == [1.0, 2.0]


def test_no_other_module_assigns_the_class_of_an_object():
    modules = Path(oplib.__file__).parent.rglob("*.py")
    assert [str(one) for one in modules if re.search(r"\.__class__ = ", one.read_text())] == []
