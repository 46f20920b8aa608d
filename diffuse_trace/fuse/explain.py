"""Plans in words: what was recorded, what it became, and why."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from ..ir import View
from ..ir.text import format_partition, format_task, lines
from ..report import size
from .memory import block_bytes, peak_bytes, temporary_bytes, transfer_bytes
from .plan import Choose, Exchange, Group, Plan, Reduction, Repeat, Step, Transfer


def explain(plan: Plan, ranks: int | None = None) -> str:
    """The program before and after fusion: groups and why they end, exchanges and allreduces, bytes saved and needed.

    Bytes of exchanges are those that one rank receives, at most; with ``ranks`` also those of all ranks together.
    """
    before = [text for text, _ in lines(plan.program)]
    after = _steps(plan, plan.steps, ranks, itertools.count(1))
    groups, temporaries = plan.groups(), plan.temporaries()
    summary = [
        f"tasks          {len(plan.program.tasks)} in {len(groups)} group{'s'[: len(groups) != 1]}"
        + f", {plan.repeated} more whose results others have made" * bool(plan.repeated),
        f"temporaries    {len(temporaries)} never materialised, {size(temporary_bytes(plan))} on all ranks together",
        f"exchanges      {len(plan.exchanges())}, allreduces {len(plan.reductions())}",
        f"peak memory    {size(peak_bytes(plan))} on the rank with most",
    ]
    return "\n".join(["before fusion", *_indented(before), "", "after fusion", *_indented(after), "", *summary])


def _steps(plan: Plan, steps: Iterable[Step], ranks: int | None, numbers: itertools.count[int]) -> list[str]:
    rows: list[str] = []
    for step in steps:
        if isinstance(step, Group):
            rows += _group(plan, step, next(numbers))
        elif isinstance(step, Exchange):
            total = sum(transfer_bytes(plan, t) for t in step.transfers)
            everywhere = f", {size(total * ranks)} together at most" if ranks and ranks > 1 else ""
            rows.append(f"exchange, {size(total)} a rank{everywhere}{_at(step.line)}")
            rows += [f"    {_transfer(plan, t)}" for t in step.transfers]
        elif isinstance(step, Reduction):
            rows += _reduction(plan, step)
        else:
            rows += _region(plan, step, ranks, numbers)
    return rows


def _region(plan: Plan, step: Repeat | Choose, ranks: int | None, numbers: itertools.count[int]) -> list[str]:
    region = plan.program.regions[step.region]
    if isinstance(step, Repeat):
        kept = sum(block_bytes(plan, v) for v in plan.versions.handed[step.region].made)
        rows = [f"loop, carrying {size(kept)} on a rank{_at(region.line)}"]
        rows += _indented(_steps(plan, step.condition, ranks, numbers))
        rows.append(f"  while %{region.predicate.id}")
        return rows + _indented(_steps(plan, step.body, ranks, numbers))
    rows = [f"if %{region.predicate.id}{_at(region.line)}", *_indented(_steps(plan, step.first, ranks, numbers))]
    return [*rows, "else", *_indented(_steps(plan, step.second, ranks, numbers))]


def _indented(rows: list[str]) -> list[str]:
    return ["  " + row for row in rows]


def _group(plan: Plan, group: Group, number: int) -> list[str]:
    partition = plan.placed[group.tasks[0]].partition
    rows = [f"group {number}, over {format_partition(partition)}"]
    rows += [f"    {format_task(plan.task(t))}" for t in group.tasks]
    if group.temporaries:
        names = ", ".join(f"%{plan.versions.all[v].store.id}" for v in sorted(group.temporaries))
        saved = sum(block_bytes(plan, v) for v in group.temporaries)
        rows.append(f"    temporaries {names}: {size(saved)} saved on a rank")
    if group.ended:
        rows.append(f"    ends here: {group.ended}")
    return rows


def _transfer(plan: Plan, transfer: Transfer) -> str:
    store = plan.versions.all[transfer.version].store
    amount = size(transfer_bytes(plan, transfer))
    if transfer.view is None:
        return f"halo of %{store.id}, shifts {', '.join(map(str, transfer.shifts))}: {amount}"
    if transfer.pattern is not None:
        return f"gather of %{store.id} what rows of the matrix name: {amount}"
    assert transfer.partition is not None
    what = "all" if transfer.view.is_identity(store.shape) else _view(transfer.view)
    return f"move {what} of %{store.id} to {format_partition(transfer.partition)}: {amount}"


def _view(view: View) -> str:
    return "[" + ", ".join(str(n) for n in view.shape) + "]"


def _reduction(plan: Plan, step: Reduction) -> list[str]:
    rows = [f"allreduce{_at(step.line)}"]
    for item in step.items:
        store = plan.versions.all[item.version].store
        what = item.operator if item.axis is None else f"running {item.operator} along axis {item.axis}"
        amount = size(block_bytes(plan, item.version))
        rows.append(f"    {what} of %{store.id}, {amount}, over dimensions {item.dims} of the grid {item.grid}")
    return rows


def _at(line: str) -> str:
    return f"  # {line}" if line else ""
