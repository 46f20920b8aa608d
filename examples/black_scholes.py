"""Prices of European options by Black and Scholes (1973), a million at a time.

    diffuse run -n 2 examples/black_scholes.py --options 4000000 --check
    python examples/black_scholes.py --package numpy

The normal distribution is the polynomial of Abramowitz and Stegun, 26.2.17, with an error below 7.5e-8.
"""

from __future__ import annotations

import numpy
from running import Options, check, difference, package, picture, repeat

RATE, VOLATILITY = 0.02, 0.3


def normal_cdf(np, x):
    """The distribution function of the standard normal distribution."""
    k = 1 / (1 + 0.2316419 * np.abs(x))
    poly = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = 0.3989422804014327 * np.exp(-0.5 * x * x) * poly
    return np.where(x < 0, tail, 1 - tail)


def prices(np, spot, strike, years, rate, volatility):
    """The prices of calls and puts."""
    deviation = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / deviation
    d2 = d1 - deviation
    discounted = strike * np.exp(-rate * years)
    call = spot * normal_cdf(np, d1) - discounted * normal_cdf(np, d2)
    put = discounted * normal_cdf(np, -d2) - spot * normal_cdf(np, -d1)
    return call, put


def inputs(np, count):
    """Spot and strike prices, and years to maturity."""
    rng = np.random.default_rng(1)
    return rng.uniform(10, 50, count), rng.uniform(10, 50, count), rng.uniform(0.1, 2, count)


def main() -> None:
    parser = Options(__doc__, "compare with SciPy's normal distribution")
    parser.count("--options", 1_000_000, "options to price")
    parser.count("--steps", 20, "times that all are priced")
    options = parser.parse()
    p = package(options.package)
    spot, strike, years = inputs(p.np, options.options)
    price = p.jit(lambda *given: prices(p.np, *given))
    call, put = price(spot, strike, years, RATE, VOLATILITY)

    def step(k):
        nonlocal call, put
        call, put = price(spot, strike, years, RATE, VOLATILITY + 0.001 * (k % 10))

    repeat(p, options.steps, step).show(p, options.options, "options")
    call, put = price(spot, strike, years, RATE, VOLATILITY)
    print(f"mean price of a call {float(call.mean()):.4f}, of a put {float(put.mean()):.4f}")
    if options.check:
        from scipy.special import ndtr

        s, k, t = (numpy.asarray(a) for a in (spot, strike, years))
        d1 = (numpy.log(s / k) + (RATE + 0.5 * VOLATILITY**2) * t) / (VOLATILITY * numpy.sqrt(t))
        right = s * ndtr(d1) - k * numpy.exp(-RATE * t) * ndtr(d1 - VOLATILITY * numpy.sqrt(t))
        check("calls", difference(call, right), 2e-7)
        check("puts, by parity", difference(put, right - s + k * numpy.exp(-RATE * t)), 2e-7)
    if options.plot:
        few = slice(0, min(5000, options.options))
        x, y, t = (numpy.asarray(a[few]) for a in (spot / strike, call / strike, years))

        def draw(figure, ax):
            figure.colorbar(ax.scatter(x, y, c=t, s=2), ax=ax, label="years")
            ax.set(xlabel="spot / strike", ylabel="call / strike")

        picture(p, options.plot, draw)


if __name__ == "__main__":
    main()
