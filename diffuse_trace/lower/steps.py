"""The steps of a plan on one rank, in order."""

from __future__ import annotations

from ..fuse.plan import Exchange, Plan, Reduction
from .communicate import Combine, Communicate
from .compute import Compute
from .geometry import Geometry
from .state import Step


def steps_of(plan: Plan, geometry: Geometry, flags: dict[int, int], digest: int, grain: str) -> list[Step]:
    """The steps of a plan; with ``grain`` "task" each task is one."""
    steps: list[Step] = []
    for n, step in enumerate(plan.steps):
        if isinstance(step, Exchange):
            steps.append(Communicate(plan, geometry, step, flags, digest + (n << 16)))
        elif isinstance(step, Reduction):
            steps.append(Combine(plan, geometry, step, digest + (n << 16)))
        elif grain == "task":
            steps.extend(Compute(plan, geometry, [t], frozenset()) for t in step.tasks)
        else:
            steps.append(Compute(plan, geometry, step.tasks, step.temporaries))
    return steps
