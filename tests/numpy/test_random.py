"""Random numbers: reproducible, in range, with the right moments."""

from __future__ import annotations

import numpy
import pytest

import diffuse_trace.numpy as np


def test_draws_depend_on_the_seed_only() -> None:
    first, second = np.random.default_rng(7), np.random.default_rng(7)
    a, b, c = first.random((5, 3)), second.random((5, 3)), second.random((5, 3))
    assert np.array_equal(a, b) and not np.array_equal(b, c)
    assert not np.array_equal(np.random.default_rng(8).random((5, 3)), a)
    np.random.seed(1)
    d = np.random.rand(4)
    np.random.seed(1)
    assert np.array_equal(np.random.rand(4), d)
    assert np.random.default_rng().random().shape == ()


def test_distributions() -> None:
    generator = np.random.default_rng(0)
    n = 20000
    uniform = generator.uniform(2, 5, n).gather()
    normal = generator.normal(-1, 2, size=n).gather()
    integers = generator.integers(3, 9, n).gather()
    assert uniform.min() >= 2 and uniform.max() < 5
    assert abs(uniform.mean() - 3.5) < 0.03 and abs(uniform.std() - 3 / 12**0.5) < 0.02
    assert abs(normal.mean() + 1) < 0.06 and abs(normal.std() - 2) < 0.05
    assert set(numpy.unique(integers)) == set(range(3, 9)) and abs(integers.mean() - 5.5) < 0.06
    assert generator.integers(4, size=3).dtype == numpy.int64
    assert generator.random(3, dtype=numpy.float32).dtype == numpy.float32
    assert generator.normal(np.zeros((2, 3)), 1.0).shape == (2, 3)
    for name, shape in (("rand", (2, 3)), ("randn", (2, 3))):
        assert getattr(np.random, name)(*shape).shape == shape
    with pytest.raises(ValueError, match="low >= high"):
        generator.integers(3, 3)
    with pytest.raises(ValueError, match="scale < 0"):
        generator.normal(0, -1)
