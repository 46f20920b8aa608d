"""Matrix Market files, read and written by all ranks together; none holds the whole."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from .. import recording
from ..runtime.ranks import world
from . import rows as distributed
from .arrays import as_sparse, coo_array

_FIELDS = {
    "real": np.float64,
    "double": np.float64,
    "integer": np.int64,
    "complex": np.complex128,
    "pattern": np.float64,
}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")


def mmread(source: str | os.PathLike[str]) -> Any:
    """A sparse matrix from a file in coordinate format (``.mtx``); each rank reads its part of it.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no such file, or has fewer or more lines than it says; on every rank, with the line.
    """
    path = Path(source)
    problem, header = "", None
    try:
        header = _header(path)
    except ValueError as error:
        problem = str(error)
    distributed.agree_on(problem)
    assert header is not None
    field, symmetry, (m, n, count), start, line = header
    text = _part(path, start)
    lines = text.count(b"\n") + (not text.endswith(b"\n") and bool(text.strip()))
    before = [int(x[0]) for x in distributed.everyone(np.array([lines], np.int64))]
    first = line + 1 + sum(before[: world().rank])
    columns = 2 if field == "pattern" else 4 if field == "complex" else 3
    try:
        table = _parse(text, columns)
    except ValueError as error:
        problem = f"{path}: line {first} or after it: {error}"
        table = np.zeros((0, columns))
    found = int(sum(int(x[0]) for x in distributed.everyone(np.array([len(table)], np.int64))))
    if not problem and found != count:
        problem = f"{path}: the header says {count} elements, and the file holds {found}; is it complete?"
    if not problem and len(table) and (table[:, :2].min() < 1 or table[:, 0].max() > m or table[:, 1].max() > n):
        problem = f"{path}: line {first} or after it: an index lies outside the {m} x {n} matrix"
    distributed.agree_on(problem)
    rows, cols = table[:, 0].astype(np.int64) - 1, table[:, 1].astype(np.int64) - 1
    values: Any
    if field == "pattern":
        values = np.ones(len(table))
    elif field == "complex":
        values = table[:, 2] + 1j * table[:, 3]
    else:
        values = table[:, 2].astype(_FIELDS[field])
    if symmetry != "general":
        off = rows != cols
        mirrored = values[off]
        if symmetry == "hermitian":
            mirrored = mirrored.conj()
        elif symmetry == "skew-symmetric":
            mirrored = -mirrored
        rows, cols = np.concatenate([rows, cols[off]]), np.concatenate([cols, rows[off]])
        values = np.concatenate([values, mirrored])
    return coo_array.from_local_triples((m, n), rows, cols, values)


def _header(path: Path) -> tuple[str, str, tuple[int, int, int], int, int]:
    """Field, symmetry, sizes, where the elements begin, and the number of the line before them."""
    with open(path, "rb") as file:
        banner = file.readline(1000).decode("latin-1").lower().split()
        if len(banner) != 5 or banner[:2] != ["%%matrixmarket", "matrix"]:
            raise ValueError(f"{path}: line 1: not a Matrix Market file")
        _, _, layout, field, symmetry = banner
        if layout != "coordinate" or field not in _FIELDS or symmetry not in _SYMMETRIES:
            raise ValueError(f"{path}: line 1: a {layout} {field} {symmetry} matrix is not supported")
        number = 1
        while True:
            number += 1
            text = file.readline()
            if not text:
                raise ValueError(f"{path}: line {number}: the file ends before the sizes")
            if text.strip() and not text.startswith(b"%"):
                break
        try:
            m, n, count = (int(x) for x in text.split())
        except ValueError:
            raise ValueError(f"{path}: line {number}: expected rows, columns and elements, found {text!r}") from None
        if min(m, n, count) < 0:
            raise ValueError(f"{path}: line {number}: negative sizes")
        return field, symmetry, (m, n, count), file.tell(), number


def _part(path: Path, start: int) -> bytes:
    """This rank's lines of the elements: those that begin in its share of the bytes."""
    end = path.stat().st_size
    share = max(end - start, 0)
    low, high = (start + share * r // world().size for r in (world().rank, world().rank + 1))
    with open(path, "rb") as file:
        if low > start:
            file.seek(low - 1)
            file.readline()  # the rest of a line that begins before
            low = file.tell()
        if low >= high:
            return b""
        file.seek(low)
        text = file.read(high - low)
        return text + (b"" if text.endswith(b"\n") else file.readline())


def _parse(text: bytes, columns: int) -> np.ndarray:
    if not text.strip():
        return np.zeros((0, columns))
    return np.loadtxt(io.BytesIO(text), ndmin=2, usecols=range(columns), comments="%")


def mmwrite(
    target: str | os.PathLike[str],
    a: Any,
    comment: str = "",
    field: str | None = None,
    precision: int | None = None,
    symmetry: str = "general",
) -> None:
    """Write a sparse matrix in coordinate format, rank after rank.

    Raises:
        OSError: the file cannot be written; on every rank.
        ValueError: a symmetry other than general, or an unknown field.
    """
    matrix = as_sparse(a)
    if symmetry not in ("general", "AUTO", None):
        raise ValueError(f"mmwrite writes general matrices only, not {symmetry} ({recording.user_line()})")
    kind = field or {"c": "complex", "f": "real"}.get(matrix.dtype.kind, "integer")
    if kind not in _FIELDS:
        raise ValueError(f"unknown field {kind!r} ({recording.user_line()})")
    total = matrix.nnz
    for rank in range(world().size):
        problem = ""
        if rank == world().rank:
            try:
                _write(Path(target), matrix, kind, comment, precision, total)
            except OSError as error:
                problem = f"{target} cannot be written: {error.strerror or error}"
        told = distributed.everyone(np.frombuffer(problem.encode(), np.uint8))
        if told[rank].size:
            raise OSError(f"{told[rank].tobytes().decode()} ({recording.user_line()})")


def _write(path: Path, matrix: Any, field: str, comment: str, precision: int | None, total: int) -> None:
    found = matrix._local.tocoo()
    first = distributed.own(matrix.shape[0])[0]
    columns: list[Any] = [found.row.astype(np.int64) + first + 1, found.col.astype(np.int64) + 1]
    digits = precision or 17
    formats = ["%d", "%d"]
    if field == "complex":
        columns += [found.data.real, found.data.imag]
        formats += [f"%.{digits}g"] * 2
    elif field != "pattern":
        columns.append(found.data)
        formats.append("%d" if field == "integer" else f"%.{digits}g")
    with open(path, "ab" if world().rank else "wb") as file:
        if not world().rank:
            lines = [f"%%MatrixMarket matrix coordinate {field} general", *(f"%{c}" for c in comment.splitlines())]
            file.write(("\n".join([*lines, f"{matrix.shape[0]} {matrix.shape[1]} {total}"]) + "\n").encode())
        if len(found.data):
            names = [f"c{k}" for k in range(len(columns))]
            table = np.empty(len(found.data), [(name, c.dtype) for name, c in zip(names, columns, strict=True)])
            for name, column in zip(names, columns, strict=True):
                table[name] = column
            np.savetxt(file, table, fmt=" ".join(formats))
