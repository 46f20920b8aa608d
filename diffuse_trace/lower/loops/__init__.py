"""Loops over the points of a rank as machine code of our own, for what XLA's code for a CPU does not do well."""
