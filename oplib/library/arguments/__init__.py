"""The arguments and results of one call: bound, converted, laid out flat, and put together again."""
