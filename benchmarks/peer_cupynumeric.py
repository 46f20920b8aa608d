"""A dense application of the seven on cuPyNumeric: prints seconds a step.  See `paper.py`.

    python peer_cupynumeric.py PROGRAM [--small]

Without a GPU it needs `LEGATE_CONFIG="--cpus 2 --gpus 0 --omps 0" LEGATE_AUTO_CONFIG=0`, and a libcuda.so.1, which its
libraries are linked to: `no_cuda.c` says how one is made that knows no device.
"""

import statistics
import sys
import time

import cupynumeric
from apps import APPS
from legate.core import get_legate_runtime
from running import Package

make, steps = APPS[sys.argv[1]]
step = make(Package("cupynumeric", cupynumeric, None, None, lambda function: function, 1, 0))


def run() -> None:
    for _ in range(steps):
        step()
    get_legate_runtime().issue_execution_fence(block=True)


run()
times = []
for _ in range(3):
    start = time.perf_counter()
    run()
    times.append((time.perf_counter() - start) / steps)
print(statistics.median(times))
