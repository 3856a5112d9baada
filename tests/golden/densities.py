"""Writes densities.json: log densities and their derivatives at points that reach far into the tails.

    pip install "jax==0.10.2" "numpyro==0.22.0" "scipy==1.17.1" "numpy==2.4.6" "mpmath==1.4.1"
    python tests/golden/densities.py

The numbers come from the textbook formulas in mpmath with 60 digits. So that an error in a formula cannot pass, each
log density is compared with SciPy and with NumPyro, and each derivative with JAX's gradient of NumPyro, all in float64.
These lose digits in the tails, where the comparison is looser; how far they were apart is written into the file.
"""

import json
import platform
from pathlib import Path

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import numpyro
import numpyro.distributions as nd
import scipy
import scipy.stats as ss

jax.config.update("jax_enable_x64", True)
mp.mp.dps = 60

ln, lgamma, pi = mp.log, mp.loggamma, mp.pi
sigmoid = scipy.special.expit
SQUARE = ln(2 * pi) / 2


def softplus(x):
    return mp.log1p(mp.exp(x))


def log_sum_exp(xs):
    largest = max(xs)
    return largest + ln(sum(mp.exp(x - largest) for x in xs))


def normal(x, m, s):
    return -(((x - m) / s) ** 2) / 2 - ln(s) - SQUARE


def student_t(x, n, m, s):
    return lgamma((n + 1) / 2) - lgamma(n / 2) - ln(pi * n) / 2 - ln(s) - (n + 1) / 2 * ln(1 + ((x - m) / s) ** 2 / n)


def cauchy(x, m, s):
    return -ln(pi) - ln(s) - ln(1 + ((x - m) / s) ** 2)


def gamma(x, a, b):
    return a * ln(b) - lgamma(a) + (a - 1) * ln(x) - b * x


def multivariate_normal(x, m, tril):
    k, z, out = len(x), [], -len(x) * SQUARE
    for i in range(k):
        z.append((x[i] - m[i] - sum(tril[i * k + j] * z[j] for j in range(i))) / tril[i * k + i])
        out -= z[i] ** 2 / 2 + ln(tril[i * k + i])
    return out


def binomial(k, n, l):
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * l - n * softplus(l)


def negative_binomial(k, r, l):
    return lgamma(k + r) - lgamma(k + 1) - lgamma(r) + k * l - (k + r) * softplus(l)


def multinomial(x, _, l):
    return (
        lgamma(sum(x) + 1) - sum(lgamma(c + 1) for c in x) + sum(c * p for c, p in zip(x, l)) - sum(x) * log_sum_exp(l)
    )


def grid(values, *parameters):
    """Every value at every row of parameters."""
    return [(value, *row) for row in zip(*parameters) for value in values]


def tril(*rows):
    k = len(rows)
    return [v for row in rows for v in [*row, *[0.0] * (k - len(row))]]


def square(flat):
    k = round(len(flat) ** 0.5)
    return np.reshape(flat, (k, k))


SPREAD = [-40.0, -3.0, -0.1, 0.7, 5.0, 300.0]
LOCATION, SCALE = [0.0, 1.5, -20.0], [1.0, 0.02, 7.0]
POSITIVE = [1e-8, 0.01, 0.4, 1.7, 12.0, 80.0]
UNIT = [1e-9, 0.02, 0.35, 0.5, 0.9, 0.999]
ODDS = [-60.0, -12.0, -1.0, 0.0, 0.3, 9.0, 45.0]
VECTORS = [[0.0, 0.0], [0.3, -1.2, 2.0], [50.0, 0.0, -3.0], [-400.0, 0.0, 1.0, 2.0], [1000.0, 1001.0, 999.5]]
TRILS = [tril([1.0], [0.0, 1.0]), tril([2.0], [-1.5, 0.3]), tril([0.1], [0.7, 4.0], [3.0, -2.0, 0.05])]
MEANS = [[0.0, 0.0], [1.0, -2.0], [0.5, 0.0, 10.0]]

# name: (mpmath formula, discrete?, SciPy, NumPyro, points (value, parameters...))
DENSITIES = {
    "Normal": (normal, False, ss.norm.logpdf, nd.Normal, grid(SPREAD, LOCATION, SCALE)),
    "HalfNormal": (
        lambda x, s: normal(x, 0, s) + ln(2),
        False,
        lambda x, s: ss.halfnorm.logpdf(x, scale=s),
        nd.HalfNormal,
        grid(POSITIVE, SCALE),
    ),
    "LogNormal": (
        lambda x, m, s: normal(ln(x), m, s) - ln(x),
        False,
        lambda x, m, s: ss.lognorm.logpdf(x, s, scale=np.exp(m)),
        nd.LogNormal,
        grid(POSITIVE, LOCATION, SCALE),
    ),
    "StudentT": (
        student_t,
        False,
        ss.t.logpdf,
        nd.StudentT,
        grid([*SPREAD, 1e9], [0.3, 1.0, 4.0, 30.0, 2e3], [*LOCATION, 0.0, 0.1], [*SCALE, 1.0, 2.0]),
    ),
    "Cauchy": (cauchy, False, ss.cauchy.logpdf, nd.Cauchy, grid([*SPREAD, 1e12], LOCATION, SCALE)),
    "HalfCauchy": (
        lambda x, s: cauchy(x, 0, s) + ln(2),
        False,
        lambda x, s: ss.halfcauchy.logpdf(x, scale=s),
        nd.HalfCauchy,
        grid([*POSITIVE, 1e12], SCALE),
    ),
    "Laplace": (
        lambda x, m, s: -abs(x - m) / s - ln(2 * s),
        False,
        ss.laplace.logpdf,
        nd.Laplace,
        grid(SPREAD, LOCATION, SCALE),
    ),
    "Uniform": (
        lambda x, a, b: -ln(b - a),
        False,
        lambda x, a, b: ss.uniform.logpdf(x, a, b - a),
        nd.Uniform,
        grid(UNIT, [0.0, -3.0, -1e6], [1.0, 1.25, 1e6]),
    ),
    "Exponential": (
        lambda x, r: ln(r) - r * x,
        False,
        lambda x, r: ss.expon.logpdf(x, scale=1 / r),
        nd.Exponential,
        grid(POSITIVE, SCALE),
    ),
    "Gamma": (
        gamma,
        False,
        lambda x, a, b: ss.gamma.logpdf(x, a, scale=1 / b),
        nd.Gamma,
        grid([*POSITIVE, 1e6], [1e-3, 1.0, 3.5, 40.0, 1e6], [1.0, 2.0, 0.01, 30.0, 1.0]),
    ),
    "InverseGamma": (
        lambda x, a, b: gamma(1 / x, a, b) - 2 * ln(x),
        False,
        lambda x, a, b: ss.invgamma.logpdf(x, a, scale=b),
        nd.InverseGamma,
        grid([*POSITIVE, 1e6], [1e-3, 1.0, 3.5, 40.0, 1e5], [1.0, 2.0, 0.01, 30.0, 2e5]),
    ),
    "Beta": (
        lambda x, a, b: lgamma(a + b) - lgamma(a) - lgamma(b) + (a - 1) * ln(x) + (b - 1) * ln(1 - x),
        False,
        ss.beta.logpdf,
        nd.Beta,
        grid(UNIT, [1.0, 0.01, 3.0, 25.0, 2e5, 2.0], [1.0, 0.5, 8.0, 14.0, 1e5, 2e9]),
    ),
    "Dirichlet": (
        lambda x, a: lgamma(sum(a)) - sum(map(lgamma, a)) + sum((c - 1) * ln(v) for v, c in zip(x, a)),
        False,
        ss.dirichlet.logpdf,
        nd.Dirichlet,
        grid(
            [[0.25, 0.25, 0.5], [1e-9, 0.5, 0.499999999], [0.9375, 0.03125, 0.03125], [0.125, 0.75, 0.125]],
            [[1.0, 1.0, 1.0], [0.01, 2.0, 0.5], [30.0, 4.0, 9.0], [1e3, 2e3, 5e2]],
        ),
    ),
    "MultivariateNormal": (
        multivariate_normal,
        False,
        lambda x, m, l: ss.multivariate_normal.logpdf(x, m, square(l) @ square(l).T),
        lambda m, l: nd.MultivariateNormal(m, scale_tril=jnp.tril(l.reshape(len(m), -1))),
        grid([[0.0, 0.0], [1.0, -1.0], [12.0, -7.0], [0.01, 0.2], [-300.0, 40.0]], MEANS[:2], TRILS[:2])
        + grid(
            [[0.0, 0.0, 0.0], [1.0, -1.0, 10.0], [0.5, 0.1, 9.0], [-4.0, 30.0, 2.0], [0.6, 0.6, 12.0]],
            MEANS[2:],
            TRILS[2:],
        ),
    ),
    "Bernoulli": (
        lambda k, l: k * l - softplus(l),
        True,
        lambda k, l: ss.bernoulli.logpmf(k, sigmoid(l)),
        nd.BernoulliLogits,
        grid([0.0, 1.0], [*ODDS, -800.0, 800.0]),
    ),
    "Binomial": (
        binomial,
        True,
        lambda k, n, l: ss.binom.logpmf(k, n, sigmoid(l)),
        lambda n, l: nd.BinomialLogits(l, total_count=n),
        grid([0.0, 1.0], [1.0, 1.0, 1.0], [-60.0, 0.4, 45.0])
        + grid([0.0, 2.0, 7.0, 19.0, 20.0], [20.0, 20.0, 20.0, 20.0], [-60.0, -2.0, 0.5, 9.0])
        + grid([0.0, 1.0, 500.0, 600123.0, 1e6], [1e6, 1e6, 1e6], [-12.0, 0.40546510810816438, 3.0])
        + [(300123456.0, 1e9, -0.8472978603872037), (0.0, 0.0, 1.0)],
    ),
    "Categorical": (
        lambda k, l: l[int(k)] - log_sum_exp(l),
        True,
        lambda k, l: scipy.special.log_softmax(l)[int(k)],
        nd.CategoricalLogits,
        [(float(k), l) for l in VECTORS for k in range(len(l))],
    ),
    "Multinomial": (
        multinomial,
        True,
        lambda x, n, l: ss.multinomial.logpmf(x, n, scipy.special.softmax(l)),
        lambda n, l: nd.MultinomialLogits(l, total_count=n),
        [
            (x, sum(x), l)
            for l in VECTORS
            for x in (
                [5.0, *[0.0] * (len(l) - 1)],
                [3.0, 1.0, *[2.0] * (len(l) - 2)],
                [12.0, 40.0, *[0.0] * (len(l) - 2)],
                [250000.0, 750000.0, *[1000.0] * (len(l) - 2)],
            )
        ],
    ),
    "Poisson": (
        lambda k, h: k * h - mp.exp(h) - lgamma(k + 1),
        True,
        lambda k, h: ss.poisson.logpmf(k, np.exp(h)),
        lambda h: nd.Poisson(jnp.exp(h)),
        grid([0.0, 1.0, 4.0, 30.0, 1000.0], [-50.0, -1.0, 0.0, 3.5, 9.0])
        + [(1e6, 13.8), (1e9, 20.7), (1e9, 20.8), (0.0, 700.0)],
    ),
    "NegativeBinomial": (
        negative_binomial,
        True,
        lambda k, r, l: ss.nbinom.logpmf(k, r, sigmoid(-l)),
        nd.NegativeBinomialLogits,
        grid([0.0, 1.0, 4.0, 30.0, 1000.0], [1.0, 0.01, 3.5, 80.0, 1e4], [0.0, 2.0, -40.0, -1.5, -7.0])
        + [(5.0, 1e10, -21.5), (1e6, 1e6, 0.01), (1e6, 2.0, 13.0)],
    ),
}


def differentiated(formula, arguments):
    """The derivative of `formula` by each number of each argument (an argument is a list, a number if of length 1)."""

    def at(place, index, x):
        moved = [list(a) for a in arguments]
        moved[place][index] = x
        return formula(*unpacked(moved))

    return [[mp.diff(lambda x: at(p, i, x), a[i]) for i in range(len(a))] for p, a in enumerate(arguments)]


def unpacked(arguments):
    return [a[0] if len(a) == 1 else a for a in arguments]


def apart(found, expected):
    found, expected = np.ravel(found).astype(float), np.ravel(expected).astype(float)
    distance = np.abs(found - expected) / (1 + np.abs(expected))
    # Infinite and NaN: the other library has left the range of float64, which says nothing about the formula.
    return float(np.max(np.where(np.isfinite(distance), distance, 0.0), initial=0.0))


def rows_of(name, formula, discrete, in_scipy, in_numpyro, points):
    rows, worst = [], {"scipy": 0.0, "numpyro": 0.0, "jax_gradient": 0.0}
    for point in points:
        plain = [list(map(float, np.ravel(a))) for a in point]
        exact = [list(map(mp.mpf, a)) for a in plain]
        log_prob = formula(*unpacked(exact))
        gradient = differentiated(formula, exact)
        if discrete:
            gradient[0] = [mp.mpf(0)] * len(plain[0])
        with np.errstate(all="ignore"):
            other = in_scipy(*[np.array(a) if len(a) > 1 else a[0] for a in plain])

        def other_log_prob(value, *parameters):
            return jnp.sum(in_numpyro(*parameters).log_prob(value))

        arguments = [jnp.array(a) if len(a) > 1 else jnp.array(a[0]) for a in plain]
        places = list(range(1 if discrete else 0, len(arguments)))
        if name == "Multinomial":
            places = [2]  # NumPyro differentiates the total of the coefficient, which here comes from the value.
        if discrete and name == "Categorical":
            arguments[0] = arguments[0].astype(int)
        if name == "Multinomial":
            arguments[0], arguments[1] = arguments[0].astype(int), int(plain[1][0])
        worst["numpyro"] = max(worst["numpyro"], apart(other_log_prob(*arguments), log_prob))
        if discrete and plain[-1] == [0.0]:
            arguments[-1] = jnp.array(
                1e-12
            )  # NumPyro's cross entropy has a kink at logits of 0: its gradient there is wrong.
        theirs = jax.grad(other_log_prob, argnums=tuple(places))(*arguments)
        worst["scipy"] = max(worst["scipy"], apart(other, log_prob))
        for place, their in zip(places, theirs):
            worst["jax_gradient"] = max(worst["jax_gradient"], apart(their, [float(g) for g in gradient[place]]))
        rows.append(
            {
                "value": plain[0],
                "parameters": plain[1:],
                "log_prob": float(log_prob),
                "by_value": [float(g) for g in gradient[0]],
                "by_parameters": [[float(g) for g in part] for part in gradient[1:]],
            }
        )
    # Looser than float64 only because the other libraries cancel: a wrong formula is apart by 1e-2 or more.
    assert max(worst.values()) < 1e-4, (name, worst)
    assert len(rows) >= 15, (name, len(rows))
    print(f"{name:20} {len(rows):3} points, largest distance {worst}")
    return {"largest_distance": worst, "points": rows}


def main():
    versions = {
        "python": platform.python_version(),
        "mpmath": mp.__version__,
        "scipy": scipy.__version__,
        "numpy": np.__version__,
        "jax": jax.__version__,
        "numpyro": numpyro.__version__,
    }
    densities = {name: rows_of(name, *row) for name, row in DENSITIES.items()}
    text = json.dumps(
        {"made_by": "tests/golden/densities.py", "versions": versions, "densities": densities},
        indent=None,
        separators=(", ", ": "),
    )
    text = text.replace('{"value"', '\n{"value"').replace('"densities": {', '\n"densities": {').replace('}, "', '},\n"')
    Path(__file__).with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    main()
