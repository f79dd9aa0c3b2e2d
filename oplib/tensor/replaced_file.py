"""Files that replace others when they are complete."""

from __future__ import annotations

import io
import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, cast

_PART = 2**25  # bytes after which a file begins to go to the disk


class _EarlyFile(io.FileIO):
    """Goes to the disk while the rest is computed, so that ``fsync`` waits less at its end."""

    _begun = 0

    def write(self, data: Any, /) -> int:
        count = super().write(data)
        size = self.tell() - self._begun
        if size >= _PART:
            with suppress(AttributeError, OSError):  # a hint, by which Linux begins to write
                os.posix_fadvise(self.fileno(), self._begun, size, os.POSIX_FADV_DONTNEED)
            self._begun += size
        return count


@contextmanager
def open_to_replace(path: Path) -> Generator[IO[bytes]]:
    """Opens a file that replaces the one at a path when the block ends without an error.

    It has a name of its own, so that processes that write to one path do not meet, and is on the disk before
    it gets the name. Mode bits and links stay. Pipes and devices are written directly.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            # Without `tell`: a device such as /dev/null stays at position 0, and zipfile would believe it.
            yield cast("IO[bytes]", SimpleNamespace(write=file.write, flush=file.flush))
        return
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with io.BufferedWriter(_EarlyFile(part, "x")) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):  # then it has the mode bits of a new file
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
