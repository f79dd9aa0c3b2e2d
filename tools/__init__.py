"""Tools that write the stub files and the page of the built-in ops."""
