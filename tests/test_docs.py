"""The documentation's code runs, and the commands that it shows exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_code_blocks_run(page: Path) -> None:
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S):
        done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, timeout=200, cwd=ROOT)
        assert done.returncode == 0, f"{block}\n{done.stderr}"


def test_commands_exist() -> None:
    text = "\n".join(p.read_text() for p in PAGES)
    for command in set(re.findall(r"diffuse (run|explain|report|env)\b", text)):
        subprocess.run(
            [sys.executable, "-m", "diffuse_trace", command, "--help"], check=True, capture_output=True, timeout=60
        )
    for target in set(re.findall(r"`make (\w+)|^    make (\w+)", text, re.M)):
        name = "".join(target)
        assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text(), re.M), name
    for path in set(re.findall(r"\b((?:examples|benchmarks|docs)/\w+\.\w+)", text)):
        assert (ROOT / path).exists(), path


def test_settings_in_the_table_exist() -> None:
    from diffuse_trace import config

    known = {s.env: s.default for s in config.SETTINGS.values()}
    for name in re.findall(r"`(DIFFUSE_\w+?)(?:=\w+)?`", "\n".join(p.read_text() for p in PAGES)):
        assert name in known, name
