"""The picture of the README is what the library draws."""

from pathlib import Path

import pytest

from tools.readme_picture import PICTURE, draw_picture

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.usefixtures("forget_ops")
def test_the_picture_of_the_readme_is_up_to_date():
    assert (ROOT / PICTURE).read_text() == draw_picture(), "run `make generate`"


def test_the_picture_of_the_readme_needs_no_network_and_is_small():
    text = (ROOT / PICTURE).read_text()
    assert text.count("http") == 1  # the namespace
    assert len(text) < 20_000
