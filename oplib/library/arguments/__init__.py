"""The arguments and results of one call: binding, conversion, flat layout, and reassembly."""
