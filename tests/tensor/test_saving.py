"""Saving and loading: what comes back, and what is refused with nothing lost."""

import io
import json
import os
import pickle
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
from oplib.errors import (
    AllocationError,
    ArgumentValueError,
    DataError,
    DataTypeError,
    DtypeError,
    TracingError,
)
from tests.threads import run_in_threads


def again(tree, **options):
    """Saves and loads a tree."""
    file = io.BytesIO()
    oplib.save(tree, file)
    file.seek(0)
    return oplib.load(file, **options)


def test_a_tensor_keeps_values_dtype_and_requires_grad():
    x = oplib.tensor([[1.0, 2.0]], requires_grad=True)
    loaded = again(x)
    assert loaded is not x
    assert loaded.tolist() == [[1.0, 2.0]]
    assert (loaded.requires_grad, loaded.is_leaf, loaded.dtype) == (True, True, x.dtype)
    (loaded * 3).sum().backward()
    assert loaded.grad.tolist() == [[3.0, 3.0]]


def test_a_result_comes_back_as_a_leaf():
    y = oplib.tensor([1.0], requires_grad=True) * 2
    assert again(y).is_leaf
    assert again(y).requires_grad


@pytest.mark.parametrize(
    "dtype",
    [
        "float32",
        "float16",
        "bfloat16",
        "float8_e4m3fn",
        "int8",
        "uint8",
        "int32",
        "bool",
        "complex64",
    ],
)
def test_dtypes_come_back_exactly(dtype):
    x = oplib.tensor([0, 1], dtype=getattr(oplib, dtype))
    loaded = again(x)
    assert loaded.dtype == x.dtype
    assert loaded.to(oplib.complex64).tolist() == [0, 1]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 2, 3)])
def test_shapes_come_back(shape):
    assert again(oplib.ones(shape)).shape == shape


PLAIN = [
    None, True, 0, -3, 2**70, 1.5, 0.1, -0.0, 1 + 2j, "text", "é\n", b"\x00\xff", [], (), {}, [1, [2, (3,)]],
    {"a": 1, 2: "b", (1, 2): None, 1.5: [True]}, OrderedDict(b=1, a=2), np.dtype("float32"),
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_come_back_with_their_types(value):
    loaded = again(value)
    assert loaded == value
    assert type(loaded) is type(value)
    assert repr(loaded) == repr(value)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float8_e5m2", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3)])
def test_arrays_of_dtypes_that_numpy_lacks_come_back(dtype, shape):
    saved = jnp.ones(shape, dtype)
    for loaded in again([saved, np.asarray(saved).T]):
        assert loaded.dtype == saved.dtype
        assert np.asarray(loaded).tobytes() == np.asarray(saved).tobytes()


def test_infinities_and_nan_come_back():
    assert again([float("inf"), -float("inf")]) == [float("inf"), -float("inf")]
    assert np.isnan(again(float("nan")))


def test_arrays_come_back_as_what_they_were():
    loaded = again({"jax": jnp.arange(3), "numpy": np.arange(3.0), "scalar": np.float32(2.5)})
    assert isinstance(loaded["jax"], jax.Array)
    assert type(loaded["numpy"]) is np.ndarray
    assert loaded["numpy"].dtype == np.float64
    assert loaded["scalar"] == 2.5


def test_arrays_in_every_order_of_memory_and_of_bytes_come_back():
    array = np.arange(24.0).reshape(2, 3, 4)
    for saved in (array.T, array[:, ::2], np.asfortranarray(array), array.astype(">f4"), array[:0].T):
        loaded = again([saved])[0]
        np.testing.assert_array_equal(loaded, saved)
        assert loaded.dtype == saved.dtype
        loaded += 1  # it may be written


def test_an_array_that_is_written_in_several_steps_has_the_bytes_of_its_items_in_order():
    values = np.arange(2 * 300 * 301, dtype=np.float32).reshape(2, 300, 301)  # more than two chunks of bytes
    for saved in (values, values.T, values[:, ::-1, ::2], values.astype(">i2")):
        file = io.BytesIO()
        oplib.save(saved, file)
        assert zipfile.ZipFile(file).read("arrays/0") == saved.tobytes()


def test_one_numpy_array_in_two_places_is_one_array_again():
    array = np.arange(3)
    first, second = again([array, array])
    assert first is second


def test_an_array_that_is_read_in_several_steps_has_its_memory_to_itself():
    values = np.arange(3 * 2**16 + 5, dtype=np.float32)  # more than two chunks of bytes, and no whole number
    file = io.BytesIO()
    oplib.save({"w": oplib.tensor(values), "n": values}, file)
    loaded = [oplib.load(file) for _ in range(2)]
    loaded[0]["n"][:] = 0
    add = jax.jit(lambda array: array + 1, donate_argnums=0)
    np.testing.assert_array_equal(add(loaded[0]["w"].array), values + 1)
    np.testing.assert_array_equal(loaded[1]["w"].numpy(), values)
    np.testing.assert_array_equal(loaded[1]["n"], values)


def test_arrays_of_all_kinds_and_sizes_in_one_file_come_back_at_their_places():
    large = oplib.arange(2.0**17)  # is not transferred with others that are large
    key, array, numbers = jax.random.key(3), jnp.arange(3), np.arange(4)
    tree = [oplib.ones(2), numbers, large, (key, array), large + 1, {"again": array, "more": oplib.zeros(0)}]
    loaded = again(tree)
    assert [type(item) for item in loaded] == [type(item) for item in tree]
    for place in (0, 2, 4):
        np.testing.assert_array_equal(loaded[place].numpy(), tree[place].numpy())
    np.testing.assert_array_equal(loaded[1], numbers)
    np.testing.assert_array_equal(jax.random.key_data(loaded[3][0]), jax.random.key_data(key))
    assert loaded[3][1] is loaded[5]["again"]
    assert loaded[3][1].tolist() == [0, 1, 2]
    assert loaded[5]["more"].shape == (0,)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
@pytest.mark.parametrize("shape", [(), (4,), (2, 0)])
def test_keys_come_back_with_their_implementation(impl, shape):
    key = jax.random.split(jax.random.key(7, impl=impl), shape)
    loaded = again({"key": key})["key"]
    assert (loaded.dtype, loaded.shape) == (key.dtype, shape)
    assert jax.random.key_impl(loaded) == impl
    np.testing.assert_array_equal(jax.random.key_data(loaded), jax.random.key_data(key))


def test_a_key_in_two_places_is_one_key_again():
    key = jax.random.key(0)
    first, second = again([key, key])
    assert first is second


@pytest.mark.parametrize("draws", [0, 1, 3])
def test_a_saved_state_of_the_global_generator_goes_on_with_the_same_numbers(draws):
    before = oplib.get_rng_state()
    try:
        oplib.manual_seed(2**40 + 3)
        for _ in range(draws):
            oplib.rand(2)
        loaded = again({"rng": oplib.get_rng_state(), "step": draws})
        expected = [oplib.randn(3).tolist() for _ in range(2)]
        oplib.set_rng_state(loaded["rng"])
        assert [oplib.randn(3).tolist() for _ in range(2)] == expected
    finally:
        oplib.set_rng_state(before)


def test_a_saved_state_of_a_generator_goes_on_in_a_compiled_function():
    generator = oplib.Generator().manual_seed(5)
    draw = oplib.jit(lambda: oplib.randn(3, generator=generator))
    draw()
    stored = again(generator.get_state())
    expected = draw().tolist()
    generator.set_state(stored)
    assert draw().tolist() == expected
    assert oplib.randn(3, generator=oplib.Generator().set_state(stored)).tolist() == expected


@pytest.mark.devices(2)
def test_a_key_is_put_on_the_chosen_device():
    loaded = again(jax.random.key(0), map_location=jax.devices("cpu")[1])
    assert loaded.devices() == {jax.devices("cpu")[1]}


@pytest.mark.devices(2)
def test_a_sharding_is_for_the_dimensions_of_keys_and_not_for_their_data():
    mesh = jax.make_mesh((2,), ("d",), devices=jax.devices()[:2])
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    keys = jax.random.split(jax.random.key(0), 4)
    assert again(keys, map_location=sharding).sharding == sharding
    with pytest.raises(ArgumentValueError, match=r"load: the tree: the sharding names 1 dimensions"):
        again(jax.random.key(0), map_location=sharding)


def test_dictionaries_keep_their_order():
    assert list(again({"z": 1, "a": 2, "m": 3})) == ["z", "a", "m"]


def test_one_tensor_in_two_places_is_one_tensor_again():
    w = oplib.ones(2)
    loaded = again({"encoder": w, "decoder": [w], "other": oplib.ones(2)})
    assert loaded["encoder"] is loaded["decoder"][0]
    assert loaded["other"] is not loaded["encoder"]


def test_a_path_is_written_and_replaced(tmp_path):
    path = tmp_path / "model.npz"
    for value in (1.0, 2.0):
        oplib.save([oplib.full((2,), value)], path)
        assert oplib.load(str(path))[0].tolist() == [value] * 2
    assert [file.name for file in tmp_path.iterdir()] == ["model.npz"]


def test_the_file_is_the_same_each_time_and_numpy_reads_its_arrays():
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        oplib.save({"w": oplib.ones(2)}, file)
    assert files[0].getvalue() == files[1].getvalue()
    with zipfile.ZipFile(files[0]) as archive:
        assert np.frombuffer(archive.read("arrays/0"), np.float32).tolist() == [1.0, 1.0]
        assert json.loads(archive.read("structure.json"))["tree"] == {"dict": [["w"], [{"array": 0}]]}


@pytest.mark.devices(2)
def test_a_device_can_be_chosen():
    device = jax.devices()[1]
    assert again(oplib.ones(2), map_location=device).array.devices() == {device}
    assert again(jnp.ones(2), map_location="cpu").devices() == {jax.devices()[0]}


@pytest.mark.devices(2)
def test_a_sharded_tensor_is_saved_whole():
    mesh = jax.make_mesh((2,), ("i",), devices=jax.devices()[:2])
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    x = oplib.Tensor.from_array(jax.device_put(jnp.arange(4.0), sharding))
    assert again(x).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_in_inference_mode_tensors_of_it_are_loaded():
    with oplib.inference_mode():
        assert again(oplib.ones(1)).is_inference()
    assert not again(oplib.ones(1)).is_inference()


# What is refused -----------------------------------------------------------------------------


class Named(NamedTuple):
    x: int


@pytest.mark.parametrize(
    ("tree", "where"),
    [
        ({"a": [1, object()]}, r"the tree\['a'\]\[1\] is of a type that is not saved. Got builtins.object"),
        (lambda: 3, r"the tree is of a type that is not saved. Got builtins.function"),
        (Named(1), r"Got .*Named"),
        ({1, 2}, r"Got builtins.set"),
        ({object(): 1}, r"a key of the tree is of a type that is not saved"),
        (np.array([object()]), r"the tree is an array of something else than numbers"),
        (np.zeros(2, [("a", "f4")]), r"the tree is an array of something else than numbers"),
        ([np.dtype([("a", "f4")])], r"the tree\[0\] is of a type that is not saved"),
        ([np.dtype(("i4", (2,)))], r"the tree\[0\] is of a type that is not saved"),
        ([np.dtypes.StringDType()], r"the tree\[0\] is of a type that is not saved"),
        ([np.longdouble(1)], r"the tree\[0\] is of a type that is not saved. Got numpy.longdouble"),
        ([np.timedelta64(1, "ns")], r"the tree\[0\] is of a type that is not saved. Got numpy.timedelta64"),
        ([np.zeros(1, "i4,i4")[0]], r"the tree\[0\] is of a type that is not saved. Got numpy.void"),
        (
            {"a": [oplib.Tensor.from_array(jax.random.key(0))]},
            r"save: the tree\['a'\]\[0\] is a Tensor of keys. Got key<fry>\[\]. Save tensor.array",
        ),
    ],
)
def test_what_is_not_saved_says_where_and_leaves_the_file_as_it_was(tmp_path, tree, where):
    path = tmp_path / "file"
    oplib.save(1, path)
    with pytest.raises(DataTypeError, match=where):
        oplib.save(tree, path)
    assert oplib.load(path) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_a_traced_tensor_is_not_saved():
    with pytest.raises(TracingError, match=r"save: the tree\[0\] is traced"):
        jax.jit(lambda a: oplib.save([oplib.Tensor.from_array(a)], io.BytesIO()))(jnp.ones(1))
    with pytest.raises(TracingError, match=r"save: the tree\['k'\] is traced"):
        jax.jit(lambda key: oplib.save({"k": key}, io.BytesIO()))(jax.random.key(0))


@pytest.mark.parametrize("content", [b"", b"nonsense", pickle.dumps({"a": 1})])
def test_a_file_of_another_kind_is_refused(content):
    told = r"load: the file is not one that oplib\.save has written, .* BadZipFile: File is not a zip file\. "
    with pytest.raises(DataError, match=told):
        oplib.load(io.BytesIO(content))


def test_an_archive_without_a_tree_is_refused():
    file = io.BytesIO()
    np.savez(file, a=np.ones(1))
    with pytest.raises(DataError, match=r"not one that oplib\.save has written.*structure\.json"):
        oplib.load(io.BytesIO(file.getvalue()))


def test_a_file_that_is_cut_off_is_refused():
    file = io.BytesIO()
    oplib.save(oplib.ones(100), file)
    with pytest.raises(DataError, match="or it is damaged"):
        oplib.load(io.BytesIO(file.getvalue()[:-60]))


def rewrite(page, name="structure.json"):
    """Returns an archive with a tree of somebody's own, and a pickled array."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, json.dumps(page))
        archive.writestr("arrays/0", np.array([print], object).dumps())
    file.seek(0)
    return file


def test_another_version_is_refused():
    with pytest.raises(DataError, match=r"another version of the format.* Got version 99, this is version 2"):
        oplib.load(rewrite({"oplib": 99, "tree": None, "arrays": []}))


@pytest.mark.spec("D.61")
def test_a_file_of_the_first_version_is_refused_by_name():
    first = rewrite({"oplib": 1, "tree": None, "arrays": []}, "tree.json")
    with pytest.raises(
        DataError, match=r"another version .* Got version 1, .*Load it with the oplib that saved"
    ):
        oplib.load(first)


@pytest.mark.parametrize(
    "tree",
    [
        {"call": "os.system"},
        {"array": 0},
        {"array": 7},
        {"array": 0, "tuple": []},
        {"array": "x"},
        {"bytes": 3},
        {"dtype": None},
        {"tuple": "abc"},
        {"dict": ["ab", "cd"]},
        {"dict": [["a", "b"], [1]]},
        {"OrderedDict": "ab"},
        {"complex": "12"},
    ],
)
@pytest.mark.parametrize("dtype", ["object", "O", "float32"])
def test_nothing_in_a_file_is_executed(tree, dtype):
    page = {"oplib": 2, "tree": tree, "arrays": [{"kind": "numpy", "dtype": dtype, "shape": [1]}]}
    with pytest.raises(DataError, match=r"or it is damaged|of an unknown kind|does not fit the table"):
        oplib.load(rewrite(page))


def test_64_bits_are_not_cut_silently():
    file = io.BytesIO()
    with jax.enable_x64(True):
        oplib.save(oplib.tensor([1.0], dtype=oplib.float64), file)
    file.seek(0)
    with pytest.raises(DtypeError, match="x64"):
        oplib.load(file)


def test_a_file_that_cannot_be_written_to_its_end_leaves_the_old_one_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "model"
    oplib.save(1, path)

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np, "ascontiguousarray", fail)
    with pytest.raises(OSError, match="disk full"):
        oplib.save(oplib.ones(2), path)
    assert oplib.load(path) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


# Files that others have written, or several at once ---------------------------------------------------------


def change_file(change, value=None, *, compression=zipfile.ZIP_STORED):
    """Returns a file whose members are those of a saved one after ``change``, which gets them by name."""
    file = io.BytesIO()
    oplib.save({"w": oplib.ones(2, 3) if value is None else value}, file)
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members = change(members) or members
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    changed.seek(0)
    return changed


def change_table(**entry):
    def change(members):
        page = json.loads(members["structure.json"])
        page["arrays"][0].update(entry)
        members["structure.json"] = json.dumps(page).encode()

    return change


def change_array(array):
    return lambda members: members.update({"arrays/0": array.tobytes()})


def nest(members):
    page = '{"oplib": 2, "arrays": [], "tree": ' + "[" * 5000 + "]" * 5000 + "}"
    members["structure.json"] = page.encode()


@pytest.mark.parametrize(
    "change",
    [
        change_table(dtype="bfloat16"),
        change_table(dtype="float64"),
        change_table(dtype="object"),
        change_table(dtype=3),
        change_table(kind="other"),
        change_table(shape=[3, 3]),
        change_table(shape=[-2, -3]),
        change_table(shape=None),
        change_array(np.ones((400, 300), np.float32)),
        lambda members: members.update({"arrays/0": members["arrays/0"] + b"0"}),
        lambda members: members.update({"arrays/0": members["arrays/0"][:-1]}),
        nest,
    ],
)
def test_data_that_do_not_fit_the_table_are_refused(change):
    with pytest.raises(DataError, match=r"^load: "):
        oplib.load(change_file(change))


@pytest.mark.parametrize(
    "change",
    [
        change_table(impl="unknown"),
        change_table(impl=None),
        change_table(impl="rbg"),
        change_table(dtype="int32"),
        change_table(shape=[1]),
        change_array(np.zeros(3, np.int32)),
    ],
)
def test_keys_that_do_not_fit_the_table_are_refused(change):
    with pytest.raises(DataError, match=r"^load: "):
        oplib.load(change_file(change, jax.random.key(0)))


def test_a_table_that_asks_for_more_than_the_memory_is_refused():
    with pytest.raises(AllocationError, match=r"^load: "):
        oplib.load(change_file(change_table(shape=[2**50])))


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressed_members_are_refused(method):
    with pytest.raises(DataError, match=f"by method {method} compressed to .* save it again"):
        oplib.load(change_file(lambda _: None, compression=method))


def test_damaged_data_are_refused():
    content = change_file(lambda _: None).getvalue()
    refused = 0
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        try:
            oplib.load(io.BytesIO(bytes(damaged)))
        except DataError:
            refused += 1
    assert refused > len(content) // 6  # every third byte is damaged; damage to a date, say, loses nothing


def test_a_tree_that_contains_itself_is_refused():
    tree = []
    tree.append({"self": tree})
    with pytest.raises(DataError, match="save: the tree contains itself, or is nested too deeply"):
        oplib.save(tree, io.BytesIO())


def test_a_tree_that_needs_more_levels_to_read_than_to_write_is_no_damage():
    tree = 1
    for _ in range(250):
        tree = {"a": [(tree,)]}
    file = io.BytesIO()
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(10_000)
        oplib.save(tree, file)
        sys.setrecursionlimit(limit - 300)
        with pytest.raises(DataError, match="load: the tree is nested too deeply"):
            oplib.load(file)
        sys.setrecursionlimit(10_000)
        assert oplib.load(file) == tree
    finally:
        sys.setrecursionlimit(limit)


def test_mode_bits_and_links_stay(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    oplib.save(1, target)
    assert target.stat().st_mode == make_plain(tmp_path / "plain").stat().st_mode
    target.chmod(0o640)
    link.symlink_to(target.name)
    oplib.save(2, link)
    assert (link.is_symlink(), oplib.load(target), target.stat().st_mode & 0o777) == (True, 2, 0o640)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "plain", "target"]


def make_plain(path):
    path.write_bytes(b"")
    return path


def test_threads_that_save_to_one_path_leave_a_whole_file(tmp_path):
    path = tmp_path / "model"

    def work(number):
        for _ in range(10):
            oplib.save([oplib.full((1000,), number), number], path)

    run_in_threads(work, 4)
    values, number = oplib.load(path)
    assert values.tolist() == [number] * 1000
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("file", [None, 3, [1], io.StringIO()])
def test_a_file_that_takes_no_bytes_is_refused(file):
    with pytest.raises(DataTypeError, match="save: argument 'f' is no path and no file of bytes"):
        oplib.save(1, file)
    with pytest.raises(DataTypeError, match="load: argument 'f' is no path and no file of bytes"):
        oplib.load(file)


@pytest.mark.skipif(not Path(os.devnull).exists(), reason="the platform has no file that takes everything")
def test_a_tree_can_be_written_to_a_device():
    oplib.save({"w": oplib.ones(3)}, os.devnull)
    assert not Path(os.devnull).is_file()  # it was written, and not replaced by a file


def edit_members(change):
    """Returns the file of a tensor of three items after a change of its members, by name."""
    before, after = io.BytesIO(), io.BytesIO()
    oplib.save(oplib.ones(3), before)
    with zipfile.ZipFile(before) as source, zipfile.ZipFile(after, "w") as target:
        for name in source.namelist():
            target.writestr(name, change(name, source.read(name)))
    after.seek(0)
    return after


@pytest.mark.parametrize("flag", ['"yes"', "[1]", "null"])
def test_a_flag_of_the_table_that_is_no_bool_is_damage(flag):
    flags = (b'"requires_grad": false', f'"requires_grad": {flag}'.encode())
    file = edit_members(lambda _, text: text.replace(*flags))
    with pytest.raises(DataError, match="array 0 has an entry that save does not write"):
        oplib.load(file)


def test_an_integer_with_more_digits_than_python_writes_is_refused_by_its_place(tmp_path):
    with pytest.raises(DataError, match=r"save: the tree\['a'\] has more digits .* an integer of 19932 bits"):
        oplib.save({"a": 10**6000}, tmp_path / "big")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_no_file_of_tensors(device):
    with pytest.raises(DataError, match=f"load: the path is a device, and no file. Got {device!r}"):
        oplib.load(device)


class Tagged(oplib.Tensor):
    """A subclass of a user."""


def test_a_subclass_is_refused_before_its_class_is_lost():
    tagged = oplib.ones(2, requires_grad=True)
    tagged.__class__ = Tagged
    tagged.name = "w"
    with pytest.raises(
        DataTypeError, match=r"the tree\['w'\] is of a subclass of Tensor.*Tagged.*detach\(\)"
    ):
        again({"w": tagged})
    loaded = again({"w": tagged.detach(), "name": tagged.name})["w"]
    loaded.__class__ = Tagged
    assert (type(loaded), loaded.tolist()) == (Tagged, [1.0, 1.0])


def test_attributes_of_a_tensor_are_not_lost_without_a_word():
    weight = oplib.ones(2, requires_grad=True)
    weight.register_hook(lambda grad: grad)
    (weight * 2).sum().backward()
    assert again([weight])[0].requires_grad
    weight.label = "first"
    with pytest.raises(DataTypeError, match=r"save: the tree\[0\] has attributes of its own.* Got label\."):
        again([weight])
    assert again([weight.detach()])[0].tolist() == [1, 1]


def test_tensors_of_inference_mode_and_of_a_program_are_no_subclass():
    with oplib.inference_mode():
        frozen = oplib.ones(2)
    assert again(frozen).tolist() == [1.0, 1.0]


def test_weights_only_may_be_said_because_a_file_holds_no_code():
    for flag in (True, False):
        assert again({"w": oplib.ones(2)}, weights_only=flag)["w"].tolist() == [1.0, 1.0]
