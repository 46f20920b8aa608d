"""Explanations: a function's program before and after fusion, and why it became what it became."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from . import config, tracer
from .fuse import plan
from .fuse.explain import explain as explain_plan
from .ir import Program, canonical
from .runtime.ranks import world


class Explanation(str):
    """Text that shows itself as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def explain(function: Callable[..., Any], *args: Any, ranks: int | None = None, **kwargs: Any) -> Explanation:
    """What ``function(*args, **kwargs)`` records and what becomes of it; nothing is run and no array changes.

    The text shows the program before and after fusion with the source lines, why each group ended, the exchanges with
    their bytes, the temporaries removed and the predicted peak memory.  ``ranks`` plans for another number of ranks
    than there are.
    """
    jitted = function if isinstance(function, tracer.Jitted) else tracer.Jitted(function, ())
    return render(jitted.name, jitted.program(*args, **kwargs), ranks)


def render(name: str, program: Program, ranks: int | None = None) -> Explanation:
    """The explanation of a recorded program."""
    grid = config.get("grid") or ()
    if ranks is not None and ranks != world().size:
        # The partitions that the arrays would have there.
        inputs = tuple((store, canonical(store.shape, ranks, grid)) for store, _ in program.inputs)
        program = replace(program, inputs=inputs)
    count = ranks or world().size
    program, _ = program.canonical()
    planned = plan(program, count, mode=config.get("fuse"), grid=grid, max_halo=config.get("max_halo"))
    title = f"{name}: {len(program.tasks)} tasks on {count} rank{'s'[: count > 1]}"
    return Explanation(f"{title}\n\n{explain_plan(planned, count)}")


@dataclass
class Request:
    """A function to explain when it is first called, as `diffuse explain` asks; ``seen`` are the functions called."""

    name: str
    ranks: int | None = None
    seen: list[str] = field(default_factory=list)
    met: bool = False

    def called(self, function: tracer.Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Print the explanation and end the program, if it is the function that was asked for."""
        if function.name not in self.seen:
            self.seen.append(function.name)
        if self.name in (function.name, function.name.split(".<locals>.")[-1]):
            self.met = True
            print(render(function.name, function.program(*args, **kwargs), self.ranks))
            raise SystemExit(0)


def request_explanation(name: str, ranks: int | None = None) -> Request:
    """Explain the function called ``name`` at its first call, and end the program there."""
    request = Request(name, ranks)
    tracer.on_call = request.called
    return request
