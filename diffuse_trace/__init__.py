"""NumPy-style programs, traced, fused and replayed on MPI ranks through XLA."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "cond",
    "config",
    "explain",
    "fori_loop",
    "jit",
    "profile",
    "rank",
    "ranks",
    "while_loop",
]

if TYPE_CHECKING:
    from . import config
    from .control import cond, fori_loop, while_loop
    from .explaining import explain
    from .profiling import profile
    from .tracer import jit

_HOMES = {"jit": "tracer", "explain": "explaining", "profile": "profiling", "config": "", "numpy": "", "errors": ""}
_HOMES |= {"fori_loop": "control", "while_loop": "control", "cond": "control", "sparse": ""}


def rank() -> int:
    """The number of this rank, from 0; 0 where there is one process."""
    from .runtime.ranks import world

    return world().rank


def ranks() -> int:
    """How many ranks run this program."""
    from .runtime.ranks import world

    return world().size


def __getattr__(name: str) -> Any:
    # Nothing is imported before it is used, so that importing the package starts neither JAX nor MPI.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    module = import_module(f".{home or name}", __name__)
    value = getattr(module, name) if home else module
    globals()[name] = value
    return value
