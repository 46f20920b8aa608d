"""Kernel generators: for each operation, how a block is computed in `jax.numpy` and what it means in NumPy."""

from . import contract, create, elementwise, random, reduce, scan, selections
from .registry import Context, Kernel, Row, kernel, register, registered

__all__ = [
    "Context",
    "Kernel",
    "Row",
    "contract",
    "create",
    "elementwise",
    "kernel",
    "random",
    "reduce",
    "register",
    "registered",
    "scan",
    "selections",
]
