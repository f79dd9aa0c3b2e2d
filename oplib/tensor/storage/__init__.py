"""The storage of a tensor, how data becomes an array, and arrays that belong to a trace."""
