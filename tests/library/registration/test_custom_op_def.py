"""The result of custom_op: the object, new definitions of it, and its kernels disabled and enabled."""

from __future__ import annotations

import copy
import gc
import importlib
import inspect
import pickle
import sys
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import jax
import pytest

from oplib.errors import (
    RegistrationError,
    RegistrationValueError,
    SchemaInferenceError,
    UnknownOperatorError,
)
from oplib.library import Library, custom_op, define, ops, register_fake, register_vmap
from tests.library.sample_kernels import X, add_one, add_two
from tests.threads import run_in_thread


@pytest.mark.filterwarnings("ignore:.* a second op of this name")
class TestNewDefinition:
    def test_it_replaces_kernel_schema_and_rules(self):
        old = custom_op("cop::f", add_one)
        old.register_fake(lambda x: x)
        old.register_vmap(lambda info, in_dims, x: (x, 0))
        old.register_autograd(lambda ctx, g: g)
        old.register_kernel("cpu", lambda x: x + 5)

        def two(x: jax.Array, y: int = 2) -> jax.Array:
            return x + y

        new = custom_op("cop::f", two)
        record = new._opoverload.record
        assert (record.fake, record.vmap, record.derivative.backward) == (None, None, None)
        assert set(record.kernels) == {"default"}
        assert new(X)[0] == 2

    def test_old_handles_call_the_new_op(self):
        handles = [custom_op("cop::f", add_one), ops.cop.f, ops.cop.f.default]
        custom_op("cop::f", add_two)
        assert [handle(X)[0] for handle in handles] == [2, 2, 2]

    def test_it_raises_the_version(self):
        before = custom_op("cop::f", add_one)._opoverload.record.version
        assert custom_op("cop::f", add_one)._opoverload.record.version > before

    def test_registrations_of_a_library_stay(self):
        custom_op("cop::f", add_one)
        library = Library("cop", "IMPL")

        def fake(x):
            return x

        register_fake("cop::f", fake, lib=library)
        custom_op("cop::f", add_two)
        assert ops.cop.f.default.record.fake is fake

    def test_rules_attached_by_name_go_with_it(self):
        custom_op("cop::f", add_one)
        register_vmap("cop::f", lambda info, in_dims, x: (x, 0))
        custom_op("cop::f", add_two)
        assert ops.cop.f.default.record.vmap is None

    @pytest.mark.slow
    def test_ten_thousand_leave_memory_as_it_was_after_a_hundred(self):
        def define_again(count: int) -> int:
            for number in range(count):

                @custom_op("cop::f")
                def f(x: jax.Array) -> jax.Array:
                    return x * number  # noqa: B023  so that each is another function

                f.register_autograd(lambda ctx, g: g)
                f.register_fake(lambda x: x)
            gc.collect()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before = define_again(100)
            assert define_again(10_000) - before < 40_000  # half a pointer for each
        finally:
            tracemalloc.stop()

    def test_one_that_fails_leaves_the_old_op(self):
        op = custom_op("cop::f", add_one)
        with pytest.raises(SchemaInferenceError, match="must have a type annotation"):
            custom_op("cop::f", lambda x: x)
        with pytest.raises(RegistrationValueError, match="'operand' names 'x'"):
            custom_op("cop::f", add_two, operand=("x",))
        assert op(X)[0] == 1

    def test_an_op_of_define_is_not_defined_again(self):
        define("cop::f", "(Tensor x) -> Tensor")
        with pytest.raises(
            RuntimeError,
            match=r"cop::f: .*multiple times.*test_custom_op_def\.py:\d+.*test_custom_op_def\.py:\d+",
        ):
            custom_op("cop::f", add_one)

    def test_a_kernel_registered_before_the_op_is_used(self):
        library = Library("cop", "IMPL")
        library.impl("f", add_two, "CPU")
        assert custom_op("cop::f", add_one)(X)[0] == 2


@custom_op("cop::module_level")
def module_level(x: jax.Array) -> jax.Array:
    """Adds one, and says so."""
    return x + 1


SOURCE = """
import jax, oplib

@oplib.custom_op("cop::{op}")
def {function}(x: jax.Array) -> jax.Array:
    return x * {factor}
"""


@pytest.mark.spec("D.38")
class TestPlaceOfADefinition:
    def run(self, file: str, op: str, factor: int, function: str = "f") -> None:
        """Runs the code of one cell or file."""
        code = compile(SOURCE.format(op=op, factor=factor, function=function), file, "exec")
        exec(code, {"__name__": "__main__"})

    def test_two_modules_warn_and_both_places_are_named(self):
        self.run("/first.py", "f", 1)
        text = (
            r"cop::f: a second op of this name replaces the first. The first is /first.py:4, registered at "
            r"/first.py:4; the second is /second.py:4, registered at /second.py:4. Choose another name"
        )
        with pytest.warns(UserWarning, match=text) as warned:
            self.run("/second.py", "f", 2)
        assert [(one.filename, one.lineno) for one in warned] == [("/second.py", 4)]
        assert ops.cop.f(X)[0] == 0
        assert ops.cop.f(X + 1)[0] == 2

    def test_two_functions_of_one_file_warn(self):
        self.run("/first.py", "f", 1)
        with pytest.warns(UserWarning, match="cop::f: a second op"):
            self.run("/first.py", "f", 2, function="g")

    @pytest.mark.parametrize(
        "files",
        [
            ("/first.py", "/first.py"),
            ("/cells/ipykernel_12/345.py", "/cells/ipykernel_12/678.py"),
            ("<ipython-input-1-abc>", "<ipython-input-2-def>"),
            ("<python-input-0>", "<python-input-7>"),
            ("<stdin>", "<stdin>"),
        ],
    )
    def test_a_repetition_is_silent(self, files: tuple[str, str]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for factor, file in enumerate(files, 2):
                self.run(file, "f", factor)
        assert ops.cop.f(X + 1)[0] == 3

    def test_so_is_a_module_that_is_loaded_again(self, tmp_path: Path, monkeypatch: Any):
        (tmp_path / "module_of_an_op.py").write_text(SOURCE.format(op="f", factor=3, function="f"))
        monkeypatch.syspath_prepend(tmp_path)
        module = importlib.import_module("module_of_an_op")
        try:
            importlib.reload(module)  # a warning would be an error
        finally:
            del sys.modules["module_of_an_op"]
        assert ops.cop.f(X + 1)[0] == 3

    def test_a_function_without_code_has_its_class_for_a_name(self):
        schema = "(Tensor x) -> Tensor"
        for _ in range(2):
            custom_op("cop::f", jax.numpy.negative, schema=schema, compile=True)
            custom_op("cop::g", jax.tree_util.Partial(jax.numpy.sin), schema=schema, compile=True)
        with pytest.warns(UserWarning, match="cop::g: a second op"):
            custom_op("cop::g", jax.numpy.negative, schema=schema, compile=True)


class TestObject:
    def test_it_looks_like_its_function(self):
        assert repr(module_level) == "<CustomOpDef(cop::module_level(Tensor x) -> Tensor)>"
        assert module_level.__name__ == "module_level"
        assert module_level.__doc__.startswith("Adds one, and says so.\n\nSignature:\n")
        assert module_level.__doc__ == module_level._opoverload.__doc__
        assert type(module_level).__doc__.startswith("An op made by ``custom_op``")
        assert module_level.__module__ == __name__
        assert list(inspect.signature(module_level).parameters) == ["x"]

    @pytest.mark.parametrize(
        "duplicate", [copy.copy, copy.deepcopy, lambda op: pickle.loads(pickle.dumps(op))]
    )
    def test_its_copies_are_itself(self, duplicate):
        assert duplicate(module_level) is module_level

    def test_a_pickle_is_a_name(self):
        assert b"cop::module_level" in pickle.dumps(module_level)
        assert b"x + 1" not in pickle.dumps(module_level)

    def test_unpickling_an_op_that_is_not_defined_names_it(self):
        data = pickle.dumps(custom_op("cop::f", add_one)).replace(b"cop::f", b"cop::g")
        with pytest.raises(UnknownOperatorError, match="operator cop::g does not exist"):
            pickle.loads(data)

    def test_unpickling_an_op_of_define_names_its_origin(self):
        define("cop::g", "(Tensor x) -> Tensor")
        data = pickle.dumps(custom_op("cop::f", add_one)).replace(b"cop::f", b"cop::g")
        with pytest.raises(RegistrationError, match="cop::g was not made by custom_op"):
            pickle.loads(data)

    def test_an_argument_called_self_can_be_given_by_keyword(self):
        assert custom_op("cop::f", lambda self: self + 1, schema="(int self) -> int")(self=1) == 2

    def test_it_can_be_jitted(self):
        assert jax.jit(custom_op("cop::f", add_one))(X)[0] == 1


class TestSwitchingKernels:
    @pytest.fixture
    def op(self):
        op = custom_op("cop::f", add_one)
        op.register_kernel("cpu", add_two)
        return op

    def test_a_disabled_kernel_gives_way_to_the_decorated_function(self, op):
        assert op(X)[0] == 2
        with op.set_kernel_enabled("cpu", enabled=False):
            assert op(X)[0] == 1
        assert op(X)[0] == 2

    def test_an_exception_switches_it_on_again(self, op):
        with pytest.raises(KeyError), op.set_kernel_enabled("cpu", False):
            raise KeyError
        assert op(X)[0] == 2

    def test_it_nests(self, op, caplog):
        with op.set_kernel_enabled("cpu", False):
            with op.set_kernel_enabled("cpu", True):
                assert op(X)[0] == 2
            assert op(X)[0] == 1
            with op.set_kernel_enabled("cpu", False):
                assert op(X)[0] == 1
            assert op(X)[0] == 1
        assert op(X)[0] == 2
        assert "already disabled" in caplog.text

    def test_a_kernel_registered_while_it_is_off_stays_off(self, op):
        with op.set_kernel_enabled("cpu", False):
            op.register_kernel("cpu", lambda x: x + 3)
            assert op(X)[0] == 1
        assert op(X)[0] == 3

    def test_the_default_kernel_can_be_disabled_too(self):
        op = custom_op("cop::f", add_one)
        op.register_kernel(None, add_two)
        assert op(X)[0] == 2
        with op.set_kernel_enabled(None, False):
            assert op(X)[0] == 1

    def test_the_log_reports_a_missing_kernel(self, op, caplog):
        with op.set_kernel_enabled("tpu", False):
            pass
        assert "cop::f: no kernel was registered for device type tpu" in caplog.text

    def test_the_log_reports_a_kernel_that_is_enabled_already(self, op, caplog):
        with op.set_kernel_enabled("cpu"):
            pass
        assert "cop::f: the kernel for device type cpu was already enabled" in caplog.text

    def test_it_is_seen_by_all_threads(self, op):
        with op.set_kernel_enabled("cpu", False):
            assert run_in_thread(lambda: float(op(X)[0])) == 1.0
