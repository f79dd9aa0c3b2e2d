"""The storage of a tensor, the conversion of data to arrays, and the check of traced values."""
