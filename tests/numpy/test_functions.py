"""The functions of the library against NumPy's, by the expressions of a text."""

from __future__ import annotations

from pathlib import Path

import pytest
from numpy_expressions import check

SECTIONS: dict[str, list[str]] = {}
for _line in Path(__file__).with_name("expressions.txt").read_text().splitlines():
    if _line.startswith("["):
        SECTIONS[_line.strip("[]")] = []
    elif not _line.startswith("#"):
        next(reversed(SECTIONS.values())).extend(e.strip() for e in _line.split("|"))


@pytest.mark.parametrize("section", SECTIONS)
def test_expressions(section: str) -> None:
    check(SECTIONS[section], 1e-12)
