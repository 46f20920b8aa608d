"""The steps of a plan on one rank, in order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from ..fuse.plan import Choose, Exchange, Plan, Reduction, Repeat
from ..fuse.plan import Step as Planned
from .communicate import Combine, Communicate
from .compute import Compute
from .geometry import Geometry
from .regions import Decide, Iterate
from .state import Step


def steps_of(plan: Plan, geometry: Geometry, flags: dict[int, int], digest: int, grain: str) -> list[Step]:
    """The steps of a plan; with ``grain`` "task" each task is one."""
    numbers = itertools.count()

    def make(steps: Sequence[Planned], inside: bool) -> list[Step]:
        made: list[Step] = []
        for step in steps:
            place = digest + (next(numbers) << 16)
            if isinstance(step, Exchange):
                made.append(Communicate(plan, geometry, step, flags, place))
            elif isinstance(step, Reduction):
                made.append(Combine(plan, geometry, step, place))
            elif isinstance(step, Repeat):
                made.append(Iterate(plan, geometry, step.region, make(step.condition, True), make(step.body, True)))
            elif isinstance(step, Choose):
                made.append(Decide(plan, geometry, step.region, make(step.first, True), make(step.second, True)))
            elif grain == "task":
                made.extend(Compute(plan, geometry, [t], frozenset(), apart=inside) for t in step.tasks)
            else:
                made.append(Compute(plan, geometry, step.tasks, step.temporaries))
        return made

    return make(plan.steps, False)


def all_steps(steps: Iterable[Step]) -> Iterator[Step]:
    """Steps, and those inside regions."""
    for step in steps:
        yield step
        if isinstance(step, Iterate | Decide):
            yield from all_steps((*step.one, *step.other))
