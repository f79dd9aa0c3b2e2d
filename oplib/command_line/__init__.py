"""The commands of ``python -m oplib``: tables of ops, checks, pictures, measurements, a new package."""
