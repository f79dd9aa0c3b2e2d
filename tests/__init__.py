"""Tests, one folder for each floor; what concerns the whole project stands at the top."""
