"""Lowering: a plan becomes one XLA executable on the local blocks of a rank."""
