"""Files that replace others: what they hold, and when they go to the disk."""

import os

import pytest

from oplib.tensor import replaced_file
from oplib.tensor.replaced_file import open_to_replace

PIECES = [b"0123", b"", b"456789", b"ab", b"cdefghijklmnopqr"]


def write(path):
    with open_to_replace(path) as file:
        for piece in PIECES:
            file.write(piece)
            file.flush()
        file.seek(2)  # as zipfile does, which completes a header at the end
        file.write(b"X")


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system takes no hint")
def test_a_file_begins_to_go_to_the_disk_before_its_end(tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr(replaced_file, "_PART", 8)
    monkeypatch.setattr(os, "posix_fadvise", lambda _, start, size, __: given.append((start, size)))
    write(tmp_path / "file")
    assert given == [(0, 10), (10, 18)]
    assert (tmp_path / "file").read_bytes() == b"01X3456789abcdefghijklmnopqr"


@pytest.mark.parametrize("has_hints", [True, False])
def test_a_system_that_takes_no_hint_writes_the_same_file(tmp_path, monkeypatch, has_hints):
    def refuse(*_):
        raise OSError("not supported")

    monkeypatch.setattr(replaced_file, "_PART", 8)
    if has_hints:
        monkeypatch.setattr(os, "posix_fadvise", refuse, raising=False)
    else:
        monkeypatch.delattr(os, "posix_fadvise", raising=False)
    write(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"01X3456789abcdefghijklmnopqr"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
