"""The collector of garbage after an import, and names that are imported at their first use."""

import gc

import pytest

import oplib
from oplib.importing import collecting_later


@pytest.fixture
def collector():
    """Shows the collector all objects, and puts it back as it was, whatever a test does to it."""
    was_enabled = gc.isenabled()
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.freeze()
    (gc.enable if was_enabled else gc.disable)()


def count_searches():
    return sum(generation["collections"] for generation in gc.get_stats())


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("switch", [gc.enable, gc.disable])
def test_the_collector_is_off_inside_and_as_it_was_after(switch):
    switch()
    was_enabled = gc.isenabled()
    with collecting_later():
        assert not gc.isenabled()
    assert gc.isenabled() == was_enabled


@pytest.mark.usefixtures("collector")
def test_the_collector_is_put_back_where_the_import_fails():
    gc.enable()
    with pytest.raises(ImportError, match="no such module"), collecting_later():
        raise ImportError("no such module")
    assert gc.isenabled()


@pytest.mark.usefixtures("collector")
def test_new_objects_of_an_import_are_old_and_start_no_collection():
    gc.enable()
    with collecting_later():
        kept = [[] for _ in range(50_000)]
        searches = count_searches()
    young = [[] for _ in range(100)]
    assert count_searches() == searches
    assert gc.get_freeze_count() == 0
    assert len(kept) + len(young) == 50_100


@pytest.mark.usefixtures("collector")
def test_objects_frozen_by_the_user_stay_frozen():
    gc.freeze()
    frozen = gc.get_freeze_count()
    with collecting_later():
        pass
    # Unfreezing would leave none. A few may end meanwhile, in other threads.
    assert frozen - 1000 < gc.get_freeze_count() <= frozen


@pytest.mark.parametrize("package", [oplib, oplib.autograd, oplib.library])
def test_dir_names_what_is_imported_at_its_first_use(package):
    assert {*package.__all__} <= {*dir(package)}
