"""The tests: one folder per floor; tests of the whole project are at the top."""
