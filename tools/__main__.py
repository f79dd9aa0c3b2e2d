"""Writes the stub files and the page of the built-in ops: ``make generate`` runs it."""

from tools.ops_page import write_page
from tools.stub import write_stub

write_stub()
write_page()
