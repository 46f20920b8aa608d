"""Kernel generators: for each operation, how a block is computed in `jax.numpy` and what it means in NumPy."""

from .registry import Context, Kernel, kernel, register

__all__ = ["Context", "Kernel", "kernel", "register"]
