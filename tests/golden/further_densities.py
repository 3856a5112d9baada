"""Writes further_densities.json and cumulatives.json: log densities, log distribution functions, and their derivatives.

    pip install "mpmath==1.4.1" "scipy==1.17.1" "numpy==2.4.6"
    python tests/golden/further_densities.py

The numbers come from the textbook formulas in mpmath with 60 digits. So that an error in a formula cannot pass, each
log density is compared with SciPy where it has the distribution, and otherwise its integral, or its sum, with one. The
distribution functions are quadratures or sums of the densities, not the formulas of the library, except where SciPy's
agree with the closed form that is written here. Far apart numbers say that SciPy loses digits in the tails.
"""

import json
import platform
from pathlib import Path

import mpmath as mp
import numpy as np
import scipy
import scipy.stats as ss

mp.mp.dps = 60
ln, lgamma, pi = mp.log, mp.loggamma, mp.pi
HERE = Path(__file__).parent
SQUARE = ln(2 * pi) / 2
LOG_BETA = lambda a, b: lgamma(a) + lgamma(b) - lgamma(a + b)
sigmoid = scipy.special.expit


def normal(x, m, s):
    return -(((x - m) / s) ** 2) / 2 - ln(s) - SQUARE


def log_phi(z):
    return ln(mp.erfc(-z / mp.sqrt(2)) / 2) if z < 0 else mp.log1p(-mp.erfc(z / mp.sqrt(2)) / 2)


def softplus(x):
    return mp.log1p(mp.exp(x))


def student_t(x, n, m, s):
    return lgamma((n + 1) / 2) - lgamma(n / 2) - ln(pi * n) / 2 - ln(s) - (n + 1) / 2 * ln(1 + ((x - m) / s) ** 2 / n)


def weibull(x, k, s):
    return ln(k / s) + (k - 1) * ln(x / s) - (x / s) ** k


def inverse_gaussian(x, m, c):
    return ln(c / (2 * pi * x**3)) / 2 - c * (x - m) ** 2 / (2 * m**2 * x)


def skew_normal(x, m, s, a):
    return normal(x, m, s) + ln(2) + log_phi(a * (x - m) / s)


def beta_binomial(k, n, a, b):
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + LOG_BETA(k + a, n - k + b) - LOG_BETA(a, b)


def solve(flat, right):
    """The columns of the solution of a lower-triangular system, row by row."""
    k = round(len(flat) ** 0.5)
    out = []
    for i in range(k):
        columns = range(len(right[0]))
        out.append([(right[i][j] - sum(flat[i * k + l] * out[l][j] for l in range(i))) / flat[i * k + i] for j in columns])
    return out


def multivariate_student_t(x, n, m, tril):
    k = len(x)
    z = solve(tril, [[v - c] for v, c in zip(x, m)])
    square = sum(row[0] ** 2 for row in z)
    log_det = sum(ln(tril[i * k + i]) for i in range(k))
    return lgamma((n + k) / 2) - lgamma(n / 2) - k * ln(pi * n) / 2 - log_det - (n + k) / 2 * ln(1 + square / n)


def listed(x):
    return x if isinstance(x, list) else [x]


def ordered_logistic(k, h, cuts):
    ends = [mp.mpf("-inf"), *[c - h for c in listed(cuts)], mp.mpf("inf")]
    cdf = lambda x: mp.mpf(0) if x == mp.mpf("-inf") else (mp.mpf(1) if x == mp.mpf("inf") else 1 / (1 + mp.exp(-x)))
    return ln(cdf(ends[int(k) + 1]) - cdf(ends[int(k)]))


def ordered_probit(k, h, cuts):
    ends = [mp.mpf("-inf"), *[c - h for c in listed(cuts)], mp.mpf("inf")]
    cdf = lambda x: mp.mpf(0) if x == mp.mpf("-inf") else (mp.mpf(1) if x == mp.mpf("inf") else mp.erfc(-x / mp.sqrt(2)) / 2)
    low, high = ends[int(k)], ends[int(k) + 1]
    return ln(cdf(high) - cdf(low)) if low + high < 0 else ln(cdf(-low) - cdf(-high))


def cumulative_hazard(t, h, logs, cuts):
    """By the time that has passed beyond each cut, and the change of the hazard there."""
    rates = [mp.exp(h + a) for a in listed(logs)]
    passed = [t, *[max(t - c, mp.mpf(0)) for c in listed(cuts)]]
    steps = [rates[0], *[b - a for a, b in zip(rates, rates[1:])]]
    return sum(step * time for step, time in zip(steps, passed))


def piecewise_exponential(t, h, logs, cuts):
    return h + listed(logs)[sum(t > c for c in listed(cuts))] - cumulative_hazard(t, h, logs, cuts)


def lkj(x, eta):
    k = round(len(x) ** 0.5)
    log_c = sum(mp.mpf(j) / 2 * ln(pi) + lgamma(eta + mp.mpf(k - 1 - j) / 2) - lgamma(eta + mp.mpf(k - 1) / 2) for j in range(1, k))
    return sum((k - i + 2 * eta - 2) * ln(x[(i - 1) * k + i - 1]) for i in range(2, k + 1)) - log_c


def wishart(x, n, tril):
    """From the density of the matrix and the Jacobian 2^k prod L_ii^(k - i + 1) of its factor."""
    x, tril = listed(x), listed(tril)
    k = round(len(x) ** 0.5)
    log_det = lambda l: 2 * sum(ln(l[i * k + i]) for i in range(k))
    a = solve(tril, [[x[i * k + j] for j in range(k)] for i in range(k)])
    trace = sum(v**2 for row in a for v in row)
    multi = mp.mpf(k * (k - 1)) / 4 * ln(pi) + sum(lgamma((n - i) / 2) for i in range(k))
    matrix = (n - k - 1) / 2 * log_det(x) - trace / 2 - n * k / 2 * ln(2) - n / 2 * log_det(tril) - multi
    return matrix + k * ln(2) + sum((k - i) * ln(x[i * k + i]) for i in range(k))


def grid(values, *parameters):
    return [(value, *row) for row in zip(*parameters) for value in values]


def tril(*rows):
    k = len(rows)
    return [v for row in rows for v in [*row, *[0.0] * (k - len(row))]]


def square(flat):
    k = round(len(flat) ** 0.5)
    return np.reshape(flat, (k, k))


def correlation(*angles):
    """A factor of order 2 or 3 with exact entries in binary where possible."""
    return list(angles)


SPREAD = [-40.0, -3.0, -0.1, 0.7, 5.0, 300.0]
POSITIVE = [1e-8, 0.01, 0.4, 1.7, 12.0, 80.0]
CUTS = [-1.0, -0.999, 0.5, 2.0, 9.0]
PIECES = [0.1, -1.5, 0.7, -0.2], [0.5, 2.0, 9.0]
FACTORS = [
    [1.0, 0.0, 0.6, 0.8],
    [1.0, 0.0, -0.96, 0.28],
    [1.0, 0.0, 0.0, 0.6, 0.8, 0.0, 0.48, 0.6, 0.64],
    [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
    [1.0, 0.0, 0.0, 0.0, 0.8, 0.6, 0.0, 0.0, 0.0, 0.28, 0.96, 0.0, 0.5, 0.5, 0.5, 0.5],
]
TRILS = [tril([1.0], [0.0, 1.0]), tril([2.0], [-1.5, 0.3]), tril([0.1], [0.7, 4.0], [3.0, -2.0, 0.05])]

# name: (formula, discrete?, SciPy or None, points)
DENSITIES = {
    "Weibull": (weibull, False, lambda x, k, s: ss.weibull_min.logpdf(x, k, scale=s), grid(POSITIVE, [1.0, 0.3, 4.0], [1.0, 2.0, 30.0])),
    "InverseGaussian": (
        inverse_gaussian,
        False,
        lambda x, m, c: ss.invgauss.logpdf(x, m / c, scale=c),
        grid(POSITIVE[1:], [1.0, 0.3, 20.0], [1.0, 5.0, 0.2]),
    ),
    "SkewNormal": (
        skew_normal,
        False,
        lambda x, m, s, a: ss.skewnorm.logpdf(x, a, m, s),
        grid(SPREAD, [0.0, 1.5, -20.0, 0.0], [1.0, 2.0, 7.0, 1.0], [0.0, 3.0, -0.5, 40.0]),
    ),
    "BetaBinomial": (
        beta_binomial,
        True,
        ss.betabinom.logpmf,
        grid([0.0, 2.0, 7.0, 20.0], [20.0] * 4, [1.0, 0.01, 30.0, 1e5], [1.0, 2.0, 0.5, 3e5])
        + grid([0.0, 600.0, 1000.0], [1000.0] * 2, [70.0, 0.3], [50.0, 12.0]),
    ),
    "Geometric": (
        lambda k, l: -k * softplus(l) - softplus(-l),
        True,
        lambda k, l: ss.geom.logpmf(k + 1, sigmoid(l)),
        grid([0.0, 1.0, 7.0, 1000.0], [-40.0, -2.0, 0.0, 0.7, 30.0]),
    ),
    "VonMises": (
        lambda x, m, c: c * mp.cos(x - m) - ln(2 * pi * mp.besseli(0, c)),
        False,
        lambda x, m, c: ss.vonmises.logpdf(x, c, m),
        grid([-3.1, -0.5, 0.01, 2.0, 3.0], [0.0, 1.0, -2.0, 7.0, 0.3, 0.3], [1.0, 1e-4, 29.0, 31.0, 5.0, 1e5]),
    ),
    "HalfStudentT": (
        lambda x, n, s: student_t(x, n, mp.mpf(0), s) + ln(2),
        False,
        lambda x, n, s: ss.t.logpdf(x, n, scale=s) + np.log(2),
        grid([*POSITIVE, 1e9], [0.3, 4.0, 2e3], [1.0, 0.02, 7.0]),
    ),
    "MultivariateStudentT": (
        multivariate_student_t,
        False,
        lambda x, n, m, l: ss.multivariate_t.logpdf(x, m, square(l) @ square(l).T, df=n),
        grid([[0.0, 0.0], [1.0, -1.0], [12.0, -7.0], [-300.0, 40.0]], [0.7, 5.0], [[0.0, 0.0], [1.0, -2.0]], TRILS[:2])
        + grid([[0.0, 0.0, 0.0], [1.0, -1.0, 10.0], [0.5, 0.1, 9.0], [-4.0, 30.0, 2.0]], [3.0, 200.0], [[0.5, 0.0, 10.0]] * 2, TRILS[2:] * 2),
    ),
    "OrderedLogistic": (ordered_logistic, True, None, [(float(k), h, CUTS) for k in range(6) for h in [-30.0, -1.0, 0.3, 45.0]] + grid([0.0, 1.0], [0.3], [[0.1]])),
    "OrderedProbit": (ordered_probit, True, None, [(float(k), h, CUTS) for k in range(6) for h in [-20.0, -1.0, 0.3, 35.0]] + grid([0.0, 1.0], [0.3], [[0.1]])),
    "PiecewiseExponential": (
        piecewise_exponential,
        False,
        None,
        grid([1e-8, 0.4, 1.7, 12.0, 80.0], [0.3, -1.0, 2.0], *[[PIECES[k]] * 3 for k in range(2)]) + grid([0.3, 9.0], [-0.7], [[0.1, -2.0]], [[1.5]]),
    ),
    "LkjCholesky": (lkj, False, None, [(x, eta) for x in FACTORS for eta in [0.3, 1.0, 2.5, 40.0]]),
    "WishartCholesky": (
        wishart,
        False,
        None,
        [([0.5], n, [s]) for n in [0.5, 3.0] for s in [1.0, 0.2]]
        + [(x, n, t) for x in [tril([1.0], [0.0, 1.0]), tril([0.1], [5.0, 3.0])] for n in [1.5, 4.0, 60.0] for t in TRILS[:2]]
        + [(tril([1.5], [0.4, 0.7], [-1.0, 2.0, 3.0]), n, TRILS[2]) for n in [2.5, 7.0, 30.0]],
    ),
}

binomial = lambda k, n, l: lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * l - n * softplus(l)
negative_binomial = lambda k, r, l: lgamma(k + r) - lgamma(k + 1) - lgamma(r) + k * l - (k + r) * softplus(l)


def both(lower=None, upper=None):
    """The logarithms of the two tails from functions of either or both, each accurate where it is small."""

    def tails(*arguments):
        if lower is None:
            u = upper(*arguments)
            return mp.log1p(-u), ln(u)
        l = lower(*arguments)
        u = 1 - l if upper is None else upper(*arguments)
        return (ln(l) if l < 0.5 else mp.log1p(-u)), (ln(u) if u < 0.5 else mp.log1p(-l))

    return tails


def counts(log_pmf, last=None):
    """Sums of probabilities up to a count, or beyond it to `last`."""

    def tails(k, *parameters):
        l = sum(mp.exp(log_pmf(mp.mpf(j), *parameters)) for j in range(int(k) + 1))
        if last is None:
            return ln(l), mp.log1p(-l)
        u = sum(mp.exp(log_pmf(mp.mpf(j), *parameters)) for j in range(int(k) + 1, int(last(*parameters)) + 1))
        return ln(l), ln(u)

    return tails


def incomplete_beta(x, a, b):
    return x**a * (1 - x) ** b / a * mp.hyp2f1(1, a + b, a + 1, x) / mp.exp(LOG_BETA(a, b))


def beta_tails(x, a, b):
    if x < a / (a + b):
        l = incomplete_beta(x, a, b)
        return ln(l), mp.log1p(-l)
    u = incomplete_beta(1 - x, b, a)
    return mp.log1p(-u), ln(u)


def swapped(tails):
    return tails[1], tails[0]


def t_tails(x, n, m, s):
    z = (x - m) / s
    outer = ln(mp.exp(beta_tails(n / (n + z**2), n / 2, mp.mpf(1) / 2)[0]) / 2)
    inner = mp.log1p(-mp.exp(outer))
    return (outer, inner) if z < 0 else (inner, outer)


def inverse_gaussian_tails(x, m, c):
    r, phi = mp.sqrt(c / x), lambda z: mp.erfc(-z / mp.sqrt(2)) / 2
    factor = mp.exp(2 * c / m)
    lower = phi(r * (x / m - 1)) + factor * phi(-r * (x / m + 1))
    upper = phi(-r * (x / m - 1)) - factor * phi(-r * (x / m + 1))
    return ln(lower), ln(upper)


def skew_normal_tails(x, m, s, a):
    """Owen's integral, by the angle."""
    z = (x - m) / s
    w, inf = abs(z), mp.inf
    top = lambda b: mp.quad(lambda t: mp.exp(-w * w * (1 + t * t) / 2) / (1 + t * t), points(w, b)) / pi
    j = top(abs(a))
    full = mp.erfc(w / mp.sqrt(2)) / 2
    lower_tail = j if (z <= 0) == (a >= 0) else 2 * full - j
    lower = ln(lower_tail), mp.log1p(-lower_tail)
    return lower if z <= 0 else swapped(lower)


def points(w, b):
    scale = 1 / (w * w * b + w)
    return [b, *[b + scale * mp.mpf(2) ** k for k in range(-3, 9)], *([b + scale * mp.mpf(10) ** k for k in range(3, 9)] + [mp.inf] if w < 1 else [])]


def exponential_tails(t):
    return ln(-mp.expm1(-t)), -t


def gamma_tails(x, a, b):
    """The series of positive terms below the mean, and the integral above it."""
    x = b * x
    if x < a + 1:
        l = mp.exp(a * ln(x) - x - lgamma(a + 1)) * mp.hyp1f1(1, a + 1, x)
        return ln(l), mp.log1p(-l)
    u = mp.gammainc(a, x, mp.inf, regularized=True)
    return mp.log1p(-u), ln(u)

# name: (tails, discrete?, points); tails returns log F and log (1 - F)
CUMULATIVES = {
    "Normal": (lambda x, m, s: (log_phi((x - m) / s), log_phi((m - x) / s)), False, grid([-40.0, -3.0, 0.7, 9.0], [0.0, 1.5], [1.0, 2.0])),
    "LogNormal": (
        lambda x, m, s: (log_phi((ln(x) - m) / s), log_phi((m - ln(x)) / s)),
        False,
        grid([1e-8, 0.4, 12.0], [0.0, 1.5], [1.0, 0.5]),
    ),
    "HalfNormal": (lambda x, s: (ln(mp.erf(x / s / mp.sqrt(2))), ln(mp.erfc(x / s / mp.sqrt(2)))), False, grid([1e-8, 0.4, 12.0, 80.0], [1.0, 7.0])),
    "Cauchy": (
        lambda x, m, s: (ln(mp.atan2(1, (m - x) / s) / pi), ln(mp.atan2(1, (x - m) / s) / pi)),
        False,
        grid([-1e9, -3.0, 0.7, 300.0], [0.0, 1.5], [1.0, 0.02]),
    ),
    "HalfCauchy": (lambda x, s: (ln(2 / pi * mp.atan(x / s)), ln(2 / pi * mp.atan(s / x))), False, grid([1e-8, 0.4, 1e9], [1.0, 7.0])),
    "Laplace": (
        lambda x, m, s: both(lambda: mp.exp((x - m) / s) / 2 if x < m else 1 - mp.exp((m - x) / s) / 2)(),
        False,
        grid([-40.0, -0.1, 0.7, 30.0], [0.0, 1.5], [1.0, 2.0]),
    ),
    "Exponential": (lambda x, r: exponential_tails(r * x), False, grid([1e-12, 0.4, 80.0, 1e4], [1.0, 7.0])),
    "Weibull": (lambda x, k, s: exponential_tails((x / s) ** k), False, grid([1e-8, 0.4, 12.0], [1.0, 0.3, 4.0], [1.0, 2.0, 9.0])),
    "PiecewiseExponential": (
        lambda t, *of: exponential_tails(cumulative_hazard(t, *of)),
        False,
        grid([1e-8, 0.4, 1.7, 12.0], [0.3, -1.0], *[[PIECES[k]] * 2 for k in range(2)]),
    ),
    "Uniform": (lambda x, a, b: (ln((x - a) / (b - a)), ln((b - x) / (b - a))), False, grid([0.001, 0.5, 0.999], [0.0, -3.0], [1.0, 1.25])),
    "Gamma": (gamma_tails, False, grid([1e-8, 0.4, 12.0, 80.0], [0.02, 1.0, 3.5, 40.0, 500.0], [1.0, 2.0, 0.3, 30.0, 40.0])),
    "InverseGamma": (lambda x, a, b: swapped(gamma_tails(1 / x, a, b)), False, grid([0.05, 0.4, 12.0, 1e6], [0.3, 3.5, 40.0], [1.0, 0.3, 30.0])),
    "Beta": (beta_tails, False, grid([1e-9, 0.02, 0.5, 0.9990234375], [1.0, 0.1, 3.0, 250.0], [1.0, 0.5, 8.0, 140.0])),
    "StudentT": (t_tails, False, grid([-1e6, -3.0, 0.7, 300.0], [0.3, 1.0, 4.0, 200.0], [0.0, 1.5, -20.0, 0.0], [1.0, 0.02, 7.0, 1.0])),
    "HalfStudentT": (
        lambda x, n, s: swapped(beta_tails(n / (n + (x / s) ** 2), n / 2, mp.mpf(1) / 2)),
        False,
        grid([1e-6, 0.4, 12.0, 1e6], [0.3, 4.0, 200.0], [1.0, 0.02, 7.0]),
    ),
    "InverseGaussian": (inverse_gaussian_tails, False, grid([0.01, 0.4, 1.7, 12.0], [1.0, 0.3, 20.0], [1.0, 5.0, 2.0])),
    "SkewNormal": (skew_normal_tails, False, grid([-9.0, -0.1, 0.7, 5.0], [0.0, 1.5, -2.0], [1.0, 2.0, 7.0], [2.0, -3.0, 40.0])),
    "Bernoulli": (lambda k, l: (-softplus(l), -softplus(-l)), True, grid([0.0], [-40.0, -1.0, 0.3, 45.0])),
    "Geometric": (lambda k, l: both(upper=lambda: mp.exp(-(k + 1) * softplus(l)))(), True, grid([0.0, 7.0, 400.0], [-30.0, -2.0, 0.7])),
    "Poisson": (counts(lambda k, h: k * h - mp.exp(h) - lgamma(k + 1)), True, grid([0.0, 4.0, 30.0], [-3.0, 0.0, 3.5])),
    "NegativeBinomial": (counts(negative_binomial), True, grid([0.0, 4.0, 30.0], [1.0, 0.1, 80.0], [0.0, 2.0, -1.5])),
    "Binomial": (counts(binomial), True, grid([0.0, 7.0, 19.0], [20.0] * 3, [-6.0, -0.5, 4.0])),
    "BetaBinomial": (counts(beta_binomial, lambda n, a, b: n), True, grid([0.0, 7.0, 19.0], [20.0] * 3, [1.0, 0.1, 30.0], [1.0, 2.0, 0.5])),
    "OrderedLogistic": (
        lambda k, h, cuts: (-softplus(h - cuts[int(k)]), -softplus(cuts[int(k)] - h)),
        True,
        [(float(k), h, CUTS) for k in range(5) for h in [-30.0, 0.3]],
    ),
    "OrderedProbit": (
        lambda k, h, cuts: (log_phi(cuts[int(k)] - h), log_phi(h - cuts[int(k)])),
        True,
        [(float(k), h, CUTS) for k in range(5) for h in [-20.0, 0.3]],
    ),
}


def unpacked(arguments):
    return [a[0] if len(a) == 1 else a for a in arguments]


def differentiated(formula, arguments, places):
    def at(place, index, x):
        moved = [list(a) for a in arguments]
        moved[place][index] = x
        return formula(*unpacked(moved))

    def one(place, index):
        x = arguments[place][index]
        # An entry above a diagonal, and a one that stands for one, have no effect on the formula.
        h = mp.mpf(10) ** -18 * (abs(x) if x else 1)
        return (at(place, index, x + h) - at(place, index, x - h)) / (2 * h)

    return [[one(p, i) for i in range(len(arguments[p]))] if p in places else [mp.mpf(0)] * len(arguments[p]) for p in range(len(arguments))]


def masked(name, gradient, arguments):
    """Numbers above the diagonal of a factor are neither read nor given a derivative."""
    for place in [0, 2] if name == "WishartCholesky" else [3] if name == "MultivariateStudentT" else [0] if name == "LkjCholesky" else []:
        k = round(len(arguments[place if place < len(arguments) else -1]) ** 0.5)
        part = gradient[place]
        for index in range(len(part)):
            if index % k > index // k:
                part[index] = mp.mpf(0)
    return gradient


def prepared(point):
    plain = [list(map(float, np.ravel(a))) for a in point]
    return plain, [list(map(mp.mpf, a)) for a in plain]


def density_rows(name, formula, discrete, in_scipy, points):
    rows, worst = [], 0.0
    for point in points:
        plain, exact = prepared(point)
        mp.mp.dps = 500 if name in ("OrderedProbit", "OrderedLogistic") else 60
        log_prob = formula(*unpacked(exact))
        gradient = differentiated(formula, exact, range(1 if discrete else 0, len(exact)))
        gradient = masked(name, gradient, exact)
        mp.mp.dps = 60
        if in_scipy is not None:
            with np.errstate(all="ignore"):
                other = float(np.ravel(in_scipy(*[np.array(a) if len(a) > 1 else a[0] for a in plain]))[0])
            if np.isfinite(other):
                worst = max(worst, abs(other - float(log_prob)) / (1 + abs(float(log_prob))))
        rows.append(
            {
                "value": plain[0],
                "parameters": plain[1:],
                "log_prob": float(log_prob),
                "by_value": [float(g) for g in gradient[0]],
                "by_parameters": [[float(g) for g in part] for part in gradient[1:]],
            }
        )
    assert worst < 1e-4 and len(rows) >= 15, (name, worst, len(rows))
    print(f"{name:20} {len(rows):3} points, largest distance from SciPy {worst:.1e}", flush=True)
    return {"largest_distance": {"scipy": worst} if in_scipy else {}, "points": rows}


def cumulative_rows(name, tails, discrete, points):
    rows = []
    for point in points:
        plain, exact = prepared(point)
        mp.mp.dps = {"InverseGaussian": 120, "Gamma": 120, "Poisson": 120, "NegativeBinomial": 120, "Binomial": 120}.get(name, 60)
        logs = tails(*unpacked(exact))
        row = {"value": plain[0][0], "parameters": plain[1:]}
        # The sum of the beta-binomial distribution function has no derivative by the total.
        places = [p for p in range(len(exact)) if not (p == 0 and discrete) and not (p == 1 and name == "BetaBinomial")]
        for side, key in enumerate(["log_cdf", "log_survival"]):
            gradient = differentiated(lambda *a: tails(*a)[side], exact, places)
            row[key] = float(logs[side])
            row[key + "_by_value"] = float(gradient[0][0])
            row[key + "_by_parameters"] = [[float(g) for g in part] for part in gradient[1:]]
        mp.mp.dps = 60
        rows.append(row)
    print(f"{name:20} {len(rows):3} points of the distribution function", flush=True)
    return rows


def check_integrals():
    """Densities that SciPy lacks integrate, or sum, to one."""
    mp.mp.dps = 20
    for eta in [mp.mpf("0.7"), mp.mpf(2)]:
        total = mp.quad(lambda r: mp.exp(lkj([1, 0, r, mp.sqrt(1 - r * r)], eta)), [-1, 0, 1])
        assert abs(total - 1) < 1e-4, total
        disc = lambda r, a, t: mp.exp(lkj([1, 0, 0, r, mp.sqrt(1 - r * r), 0, 0, t, mp.sqrt(1 - t * t)], eta)) * t * 2 * pi
        total = mp.quad(lambda r: mp.quad(lambda t: disc(r, 0, t), [0, 1]), [-1, 0, 1])
        assert abs(total - 1) < 1e-3, total
    for formula in [ordered_logistic, ordered_probit]:
        total = sum(mp.exp(formula(k, mp.mpf("0.3"), [mp.mpf(c) for c in CUTS])) for k in range(6))
        assert abs(total - 1) < 1e-15, total
    total = mp.quad(lambda t: mp.exp(piecewise_exponential(t, mp.mpf("0.3"), *PIECES)), [0, *PIECES[1], 40])
    assert abs(total - 1) < 1e-6, total
    total = mp.quad(lambda x: mp.exp(wishart([x], mp.mpf("2.5"), [mp.mpf("0.7")])), [0, 1, mp.inf])
    assert abs(total - 1) < 1e-6, total
    x, s = np.array([[1.5, 0], [0.4, 0.7]]), np.array([[2.0, 0], [-1.5, 0.3]])
    jacobian = 2 * np.log(2) + 2 * np.log(1.5) + np.log(0.7)
    theirs = ss.wishart.logpdf(x @ x.T, 5, s @ s.T) + jacobian
    ours = float(wishart([mp.mpf(v) for v in x.ravel()], mp.mpf(5), [mp.mpf(v) for v in s.ravel()]))
    assert abs(theirs - ours) < 1e-9, (theirs, ours)
    mp.mp.dps = 60


def write(name, content):
    versions = {"python": platform.python_version(), "mpmath": mp.__version__, "scipy": scipy.__version__, "numpy": np.__version__}
    text = json.dumps({"made_by": "tests/golden/further_densities.py", "versions": versions, **content}, separators=(", ", ": "))
    text = text.replace('{"value"', '\n{"value"').replace('"densities": {', '\n"densities": {').replace('}, "', '},\n"')
    (HERE / name).write_text(text + "\n")


def main():
    check_integrals()
    write("further_densities.json", {"densities": {name: density_rows(name, *row) for name, row in DENSITIES.items()}})
    write("cumulatives.json", {"cumulatives": {name: cumulative_rows(name, *row) for name, row in CUMULATIVES.items()}})


if __name__ == "__main__":
    main()
