"""Code in documents: what is printed there is run, and what it is said to print is compared."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """A ```python block of a page, and the ```text block that follows it at once, if any.

    Attributes:
        code: the block, after as many empty lines as put it on its own line numbers.
        output: what the page says it prints.
    """

    code: str
    output: str


def find_pages() -> list[Path]:
    """Returns every page written in Markdown."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def read_examples(text: str) -> list[Example]:
    """Returns the examples of a page in their order; they share one namespace."""
    blocks = list(FENCE.finditer(text))
    examples: list[Example] = []
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block[1] != "python":
            continue
        is_output = following and following[1] == "text" and not text[block.end() : following.start()].strip()
        padding = "\n" * (text[: block.start()].count("\n") + 1)
        examples.append(Example(padding + block[2], following[2] if following and is_output else ""))
    return examples
