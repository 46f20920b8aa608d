"""Run programs of the table in one way on the ranks of this job, and write how they compare with NumPy.

``runner.py FOLDER FUSE DECORATED NAME...``: a file for each rank goes into FOLDER, a line for each wrong program.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import numpy

sys.path.insert(0, str(Path(__file__).parent))


def compare(got: Any, right: Any, where: str = "result") -> None:
    """Equal shapes, dtypes and values, through nested containers."""
    if isinstance(right, dict):
        assert set(got) == set(right), f"{where}: keys {set(got)}"
        for key in right:
            compare(got[key], right[key], f"{where}[{key!r}]")
    elif isinstance(right, list | tuple):
        assert len(got) == len(right), f"{where}: {len(got)} items"
        for n, (g, r) in enumerate(zip(got, right, strict=True)):
            compare(g, r, f"{where}[{n}]")
    elif right is None:
        assert got is None, f"{where}: {got}"
    else:
        have, want = numpy.asarray(got), numpy.asarray(right)
        assert have.shape == want.shape, f"{where}: shape {have.shape}, not {want.shape}"
        if isinstance(right, numpy.ndarray | numpy.generic):
            assert have.dtype == want.dtype, f"{where}: dtype {have.dtype}, not {want.dtype}"
        tolerance = 0 if want.dtype.kind in "biu" else 1e-12 if want.dtype.itemsize > 4 else 1e-5
        numpy.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance, err_msg=where)


def main(folder: str, fuse: str, decorated: str, names: list[str]) -> None:
    from loops import LOOPS
    from table import PROGRAMS

    programs = PROGRAMS | LOOPS
    import diffuse_trace as diffuse
    import diffuse_trace.numpy as dnp
    from diffuse_trace import config

    wrong = []
    with config.override(fuse=fuse):
        for name in names:
            right = programs[name](numpy, lambda f: f)
            try:
                compare(programs[name](dnp, diffuse.jit if decorated == "jit" else lambda f: f), right)
            except Exception:
                wrong.append(f"{name}: {traceback.format_exc(limit=-4)}")
    Path(folder, f"rank{diffuse.rank()}").write_text("\n".join(wrong))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
