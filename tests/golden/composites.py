"""Writes composites.json: log densities of truncated, censored, inflated and mixed distributions, and their derivatives.

    pip install "mpmath==1.3.0"
    python tests/golden/composites.py

The numbers come from the definitions in mpmath with 60 digits: tails are error functions and sums, nothing is taken
from Partita. Derivatives are mpmath's differences at that precision.
"""

import json
from pathlib import Path

import mpmath as mp

mp.mp.dps = 60
ln, exp, sqrt, pi = mp.log, mp.exp, mp.sqrt, mp.pi


def normal(x, m, s):
    return -(((x - m) / s) ** 2) / 2 - ln(s) - ln(2 * pi) / 2


def below(x, m, s):
    """P(X <= x) of a normal variable."""
    return mp.mpf(0) if x == -mp.inf else mp.mpf(1) if x == mp.inf else mp.erfc((m - x) / s / sqrt(2)) / 2


def between(a, b, m, s):
    """From the nearer tail: the difference of two numbers next to one would lose digits even here."""
    return below(-a, -m, s) - below(-b, -m, s) if a > m else below(b, m, s) - below(a, m, s)


def poisson(k, h):
    return k * h - exp(h) - mp.loggamma(k + 1)


def sigmoid(l):
    return 1 / (1 + exp(-l))


# name: (log density of value and parameters, is the value continuous?, points)
COMPOSITES = {
    "truncated_normal": (
        lambda x, m, s, a, b: normal(x, m, s) - ln(between(a, b, m, s)),
        True,
        [
            (8.1, 0.0, 1.0, 8.0, mp.inf),
            (30.5, 0.0, 1.0, 30.0, mp.inf),
            (0.5, 0.3, 2.0, 0.0, mp.inf),
            (-1.0, 0.3, 2.0, -mp.inf, 0.0),
            (0.2, 0.3, 2.0, -1.0, 1.5),
            (-12.5, 0.0, 1.0, -13.0, -12.0),
            (6.5, 1.0, 1.5, 5.0, 8.0),
            (3.0, 1.0, 0.7, -4.0, 9.0),
            (0.9, 1.5, 2.5, 0.8, 1.4),
        ],
    ),
    "right_censored_exponential": (
        lambda t, r: -r * t,
        True,
        [(3.0, 0.5), (1e-3, 2.0), (40.0, 7.0)],
    ),
    "left_censored_normal": (
        lambda x, m, s: ln(below(x, m, s)),
        True,
        [(0.5, 0.3, 2.0), (-9.0, 1.0, 1.0), (12.0, 1.0, 1.5), (-40.0, 0.0, 1.0)],
    ),
    "interval_censored_normal": (
        lambda a, m, s, b: ln(between(a, b, m, s)),
        True,
        [(0.5, 0.3, 2.0, 1.5), (-3.0, 0.3, 2.0, 1.5), (8.0, 0.0, 1.0, 8.5), (-9.0, 1.0, 1.0, -8.0)],
    ),
    "zero_inflated_poisson": (
        lambda k, h, l: ln(sigmoid(l) + (1 - sigmoid(l)) * exp(poisson(k, h)))
        if k == 0
        else ln(1 - sigmoid(l)) + poisson(k, h),
        False,
        [(k, h, l) for k in (0, 1, 7) for h, l in ((0.5, -1.0), (3.0, 2.0), (-4.0, -20.0), (6.0, -300.0))],
    ),
    "hurdle_poisson": (
        lambda k, h, p: ln(p) if k == 0 else ln(1 - p) + poisson(k, h) - ln(1 - exp(-exp(h))),
        False,
        [(k, h, p) for k in (0, 1, 7) for h, p in ((0.5, 0.25), (3.0, 0.9), (-20.0, 1e-9))],
    ),
    "hurdle_exponential": (
        lambda x, r, l: ln(sigmoid(l)) if x == 0 else ln(1 - sigmoid(l)) + ln(r) - r * x,
        True,
        [(1.5, 2.0, 0.3), (1e-4, 0.5, -30.0), (9.0, 0.2, 12.0)],
    ),
    "mixture_of_normals": (
        lambda x, m, s, n, t, a, b: ln((exp(a + normal(x, m, s)) + exp(b + normal(x, n, t))) / (exp(a) + exp(b))),
        True,
        [
            (0.2, -1.0, 0.5, 2.0, 1.5, 0.3, -0.4),
            (45.0, -1.0, 0.5, 2.0, 1.5, 0.3, -0.4),
            (-30.0, 0.0, 1.0, 0.1, 2.0, 5.0, -60.0),
            (1.0, 1.0, 1e-3, 4.0, 1e3, 500.0, 501.0),
        ],
    ),
    "zero_inflated_truncated_poisson": (
        lambda k, h, l: ln(sigmoid(l))
        if k == 0
        else ln(1 - sigmoid(l)) + poisson(k, h) - ln(1 - exp(-exp(h))),
        False,
        [(0, 0.5, -1.0), (1, 0.5, -1.0), (4, 2.0, 3.0), (2, -9.0, 0.0)],
    ),
}


def derivative(formula, arguments, place):
    if mp.isinf(arguments[place]):
        return mp.mpf(0)
    return mp.diff(lambda x: formula(*[x if i == place else a for i, a in enumerate(arguments)]), arguments[place])


def plain(x):
    return {mp.inf: "inf", -mp.inf: "-inf"}.get(x, float(x))


def main():
    found = {}
    for name, (formula, continuous, points) in COMPOSITES.items():
        rows = []
        for point in points:
            arguments = [mp.mpf(x) for x in point]
            slopes = [
                mp.mpf(0) if place == 0 and not continuous else derivative(formula, arguments, place)
                for place in range(len(arguments))
            ]
            rows.append(
                {
                    "arguments": [plain(x) for x in arguments],
                    "log_prob": float(formula(*arguments)),
                    "slopes": [float(slope) for slope in slopes],
                }
            )
        found[name] = rows
    text = json.dumps({"made_by": "tests/golden/composites.py", "mpmath": mp.__version__, "points": found})
    text = text.replace('{"arguments"', '\n{"arguments"').replace(']}], "', ']}],\n"')
    Path(__file__).with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    main()
