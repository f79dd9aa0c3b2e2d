"""Where hooks for saved tensors are disabled."""

import pytest

from oplib.autograd.graph import disable_saved_tensors_hooks
from oplib.errors import AutogradError
from tests.threads import run_in_thread


@pytest.mark.spec("000.16")
def test_entering_while_disabled_raises_exactly_the_message(hooks):
    with disable_saved_tensors_hooks("outer"):
        with (
            disable_saved_tensors_hooks("inner"),
            pytest.raises(AutogradError, match=r"^inner$"),
            hooks(),
        ):
            pass
        with pytest.raises(AutogradError, match=r"^outer$"), hooks():
            pass
    with hooks():
        pass


@pytest.mark.spec("000.16")
def test_disabling_while_a_pair_is_in_force_raises_and_changes_nothing(a, hooks):
    with hooks():
        with pytest.raises(AutogradError, match=r"^not now$"), disable_saved_tensors_hooks("not now"):
            pass
        a * a
    with hooks():
        pass
    assert len(hooks.packed) == 2


@pytest.mark.spec("000.16")
def test_it_decorates_functions_and_takes_a_string(hooks):
    @disable_saved_tensors_hooks("decorated")
    def run():
        with hooks():
            pass

    with pytest.raises(AutogradError, match=r"^decorated$"):
        run()
    with pytest.raises(TypeError, match="Got int"), disable_saved_tensors_hooks(3):
        pass


@pytest.mark.spec("000.16")
def test_the_message_is_the_threads_own(hooks):
    def enter():
        with hooks():
            return "entered"

    with disable_saved_tensors_hooks("here"):
        assert run_in_thread(enter) == "entered"
