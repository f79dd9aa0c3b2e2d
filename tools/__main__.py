"""Writes the stub files, the page of the built-in ops and the picture of the README: ``make generate``."""

from tools.ops_page import write_page
from tools.readme_picture import write_picture
from tools.stub import write_stub

write_stub()
write_page()
write_picture()
