"""The intermediate representation: stores, views, partitions, index tasks and programs.

Every type is a frozen value that checks itself; none depends on the number of ranks in its size or in
the cost of its operations (Yadav et al., ASPLOS 2025, section 3: a scale-free representation).
"""

from .partition import REPLICATED, Partition, Pinned, Split, Spread, canonical, dims_create
from .pattern import Pattern
from .program import Program
from .region import Block, Branch, Carried, Chosen, Loop, Region
from .store import Store
from .task import Access, IndexTask, Operand, Privilege
from .view import Axis, View

__all__ = [
    "REPLICATED",
    "Region",
    "Loop",
    "Chosen",
    "Carried",
    "Branch",
    "Block",
    "Access",
    "Axis",
    "IndexTask",
    "Operand",
    "Partition",
    "Pattern",
    "Pinned",
    "Privilege",
    "Program",
    "Split",
    "Spread",
    "Store",
    "View",
    "canonical",
    "dims_create",
]
