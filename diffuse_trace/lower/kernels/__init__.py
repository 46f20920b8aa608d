"""Kernel generators: for each operation, how a block is computed in `jax.numpy` and what it means in NumPy."""

from . import create, elementwise, reduce, selections
from .registry import Context, Kernel, kernel, register, registered

__all__ = ["Context", "Kernel", "create", "elementwise", "kernel", "reduce", "register", "registered", "selections"]
