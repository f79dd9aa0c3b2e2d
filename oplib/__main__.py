"""The command line: ``python -m oplib``."""

from oplib.command_line.main import main

__all__ = ["main"]

if __name__ == "__main__":
    raise SystemExit(main())
