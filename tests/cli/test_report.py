"""Profiles: figures of a program whose counts are known, their JSON and timeline, and `diffuse report`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from launching import launch

from diffuse_trace.report import Part, PlanReport, Report, Times, brief, compare, duration, render, size

SCRIPT = """\
import diffuse_trace as diffuse
import diffuse_trace.numpy as np

@diffuse.jit
def step(u):
    change = 0.1 * (u[:-2] + u[2:] - 2 * u[1:-1])
    u[1:-1] += change
    return abs(change).max()

u = np.ones((400, 50))
for _ in range(6):
    last = step(u)
print(float(last))
"""


def report(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "diffuse_trace", "report", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.ranks(1, 2)
def test_figures_of_a_known_program(ranks: int, tmp_path: Path) -> None:
    file, trace = tmp_path / "profile.json", tmp_path / "trace.json"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = launch(script, ranks, options=[f"--profile={file}", "--trace", str(trace)])
    assert done.returncode == 0, done.stderr
    found = Report.load(file)
    assert found.ranks == ranks and len(found.peak_bytes) == ranks and found.stream > 0
    plan = next(p for p in found.plans if p.name == "step")
    assert (plan.calls, plan.hits, plan.misses) == (6, 5, 1)
    # A sum, a doubling, a difference, a scaling, an update in place, a magnitude, a maximum.
    assert (plan.exchanges, plan.allreduces) == ((1, 1) if ranks > 1 else (plan.exchanges, plan.allreduces))
    assert plan.tasks == 7 and plan.groups == 1
    group = next(p for p in plan.parts if p.kind == "group")
    assert group.tasks == 7 and group.kernels == 2 and group.seconds.least > 0
    assert group.seconds.least <= group.seconds.median <= group.seconds.most
    assert {line.split(":")[0] for line in group.lines} == {"script.py"}
    if ranks > 1:
        exchange = next(p for p in plan.parts if p.kind == "exchange")
        assert exchange.bytes == 50 * 8 and exchange.messages == 1
    assert "plan" in done.stdout and "step" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    again = report(str(file))
    assert again.returncode == 0 and "step" in again.stdout
    assert "1.00" in report(str(file), "--against", str(file)).stdout

    events = json.loads(trace.read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert {e["tid"] for e in events} == set(range(ranks))
    assert all(e["dur"] >= 0 and e["ts"] >= 0 and e["name"] for e in spans)
    assert sum(e["cat"] == "group" and e["args"]["plan"] == "step" for e in spans) == 6 * ranks


LOOP = """\
import diffuse_trace as diffuse
import diffuse_trace.numpy as np

def relax(k, u):
    u = u.copy()
    u[1:-1] = 0.5 * (u[:-2] + u[2:])
    return u / u.max()

@diffuse.jit
def several(u):
    return diffuse.fori_loop(0, 7, relax, u)

u = np.random.default_rng(0).random((400, 50))
for _ in range(3):
    u = several(u)
print(float(u[3, 3]))
"""


@pytest.mark.ranks(1, 2)
def test_the_steps_of_a_loop_are_timed_within_it(ranks: int, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    (tmp_path / "script.py").write_text(LOOP)
    plain = launch(tmp_path / "script.py", ranks)
    done = launch(tmp_path / "script.py", ranks, options=[f"--profile={file}"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == plain.stdout.splitlines()[0], "clocks change no value"
    plan = next(p for p in Report.load(file).plans if p.name == "several")
    loop = next(n for n, p in enumerate(plan.parts) if p.kind == "loop")
    body = [p for p in plan.parts[loop + 1 :] if p.times == 7]
    assert all(p.depth == 1 for p in plan.parts[loop + 1 :]), "the loop comes last"
    kinds = [p.kind for p in body]
    assert kinds.count("group") == (3 if ranks > 1 else 1) and (kinds.count("exchange"), kinds.count("allreduce")) == (
        (1, 1) if ranks > 1 else (0, 0)
    )
    assert all(p.seconds.median > 0 for p in body)
    assert plan.parts[loop].bytes == 7 * sum(p.bytes for p in body if p.kind == "group")
    assert all(0 <= p.waited <= p.seconds.most for p in body)
    assert any(p.waited > 0 for p in body) == (ranks > 1)


def test_files_that_hold_no_report(tmp_path: Path) -> None:
    for name, text, message in (("a", "no json", "is no report"), ("b", "{}", "format"), ("c", "[1]", "format")):
        (tmp_path / name).write_text(text)
        done = report(str(tmp_path / name))
        assert done.returncode == 2 and message in done.stderr and not done.stdout
    done = report(str(tmp_path / "missing"))
    assert done.returncode == 2 and "No such file" in done.stderr


def test_unwritable_files_are_refused_before_the_run(tmp_path: Path) -> None:
    for option in (["--profile=/nowhere/x.json"], ["--trace", "/nowhere/x.json"]):
        done = launch("print('ran')", options=option)
        assert done.returncode == 2 and "/nowhere/x.json cannot be written" in done.stderr and "ran" not in done.stdout


def test_reports_survive_the_disk_and_are_compared(tmp_path: Path) -> None:
    def made(seconds: float) -> Report:
        parts = [Part("group", 1, ["a.py:3"], Times(seconds, seconds / 2, seconds * 2), 10**6, 3, 1)]
        return Report(1, 1.0, 1e10, [10**9], [PlanReport("f", 3, 1, 1, 80, 0, 0, 0, 10, 5, 4, 1, "", 0.1, 0.2, parts)])

    made(1e-3).save(tmp_path / "x.json")
    assert Report.load(tmp_path / "x.json") == made(1e-3)
    text = render(made(1e-3), 80)
    assert "1 ms" in text and "10%" in text and "0.5-2" in text and max(map(len, text.splitlines())) <= 80
    assert "2.00" in compare(made(2e-3), made(1e-3), 80)


def test_words() -> None:
    assert [size(n) for n in (5, 999, 1500, 12_300_000)] == ["5 B", "999 B", "2 kB", "12 MB"]
    assert [duration(s) for s in (2e-6, 0.0123, 4)] == ["2 us", "12.3 ms", "4 s"]
    assert brief(["a.py:3", "b.py:7", "a.py:5"]) == "a.py:3-5, b.py:7"
    assert brief(["x" * 40 + ":1"]) == "..." + ("x" * 40 + ":1")[-19:]
