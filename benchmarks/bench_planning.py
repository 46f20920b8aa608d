"""Planning for many ranks (nothing is run there): its time, the size of the plan, the messages of a rank.

python benchmarks/bench_planning.py
"""

from __future__ import annotations

import statistics
import time

from common import report

from diffuse_trace.fuse import plan
from diffuse_trace.ir import canonical
from diffuse_trace.ir.text import loads
from diffuse_trace.lower.exchange import Messages, add_halo
from diffuse_trace.lower.geometry import halos, layout, margin_for

N = 65536
PROGRAM = f"""\
operands float64
store %0 float64[{N}, {N}] live input [split(0, 1, {N}), split(1, 1, {N})]
store %1 float64[{N - 2}, {N - 2}]
store %2 float64[{N - 2}, {N - 2}]
store %3 float64[{N - 2}, {N - 2}]
store %4 float64[] live
write %1 = add[{N - 2}, {N - 2}](%0[0:{N - 2}, 1:{N - 1}], %0[2:{N}, 1:{N - 1}])
write %2 = add[{N - 2}, {N - 2}](%1, %0[1:{N - 1}, 0:{N - 2}])
write %3 = multiply[{N - 2}, {N - 2}](%2, $0)
write %0[1:{N - 1}, 1:{N - 1}] = add[{N - 2}, {N - 2}](%0[1:{N - 1}, 1:{N - 1}], %3)
reduce(max) %4 = max[{N - 2}, {N - 2}](%3)
"""


def subject(ranks: int):
    program = loads(PROGRAM)
    partition = canonical((N, N), ranks)
    return type(program)(program.tasks, ((program.inputs[0][0], partition),), program.live, program.operands)


counts = (1, 16, 256, 4096)
programs = {ranks: subject(ranks) for ranks in counts}
times: dict[int, list[float]] = {ranks: [] for ranks in counts}
for _ in range(201):
    for ranks, program in programs.items():
        start = time.perf_counter()
        plan(program, ranks)
        times[ranks].append(time.perf_counter() - start)
medians = {ranks: statistics.median(t) * 1e6 for ranks, t in times.items()}
rows = []
for ranks, program in programs.items():
    made = plan(program, ranks)
    partition = program.inputs[0][1]
    middle = partition.rank(tuple(n // 2 for n in partition.grid))
    messages = Messages(middle)
    for transfer in halos(made):
        held = layout((N, N), partition, margin_for(partition, 2, 1), middle)
        add_halo(messages, transfer, (N, N), held, 0, -1)
    sent = len(messages.sends)
    rows.append(
        (f"{ranks} ranks", f"{medians[ranks]:8.0f} us, {len(repr(made))} characters, {sent} messages of a rank")
    )
several = [medians[r] for r in counts[1:]]
report(
    f"planning a five-point step of {N} x {N}",
    rows,
    [("slowest / fastest of 16 to 4096 ranks", max(several) / min(several), "<=", 1.2)],
    microseconds=medians,
)
