"""Golden numbers for the bands and the test of symmetry of a calibration, by ArviZ, SciPy and exact counting.

    python -m pip install arviz==0.23.4 numpy==2.4.6 scipy==1.17.1
    python tests/golden/calibration.py > tests/golden/calibration.json
"""

import json
import warnings
from fractions import Fraction
from math import comb

warnings.filterwarnings("ignore")
import arviz
import numpy as np
import scipy
from arviz.stats import ecdf_utils
from scipy.stats import ks_2samp, poisson

noise = np.random.default_rng(20261125)


def masses_of(ranks, bins):
    edges = [bin * ranks // bins for bin in range(bins + 1)]
    return np.diff(edges) / ranks


def interval(pointwise, count, probability):
    """ArviZ's counts of a band of intervals of this probability."""
    bounds = ecdf_utils._get_pointwise_confidence_band(pointwise, count, probability)
    return [np.rint(bound * count).astype(int) for bound in bounds]


def below(count, masses, pointwise):
    cdf = np.cumsum(masses)[:-1]
    lower, upper = interval(pointwise, count, cdf)
    before = np.insert(cdf[:-1], 0, 0)
    between = (cdf - before) / (1 - before)
    coverage = ecdf_utils._ecdf_band_interior_probability(between, count, lower, upper + 1)
    return [*lower.tolist(), count], [*upper.tolist(), count], float(coverage)


def within(count, masses, pointwise):
    """A multinomial is a vector of Poisson numbers given their sum: the coverage is a convolution."""
    lower, upper = interval(pointwise, count, masses)
    total = np.ones(1)
    for mass, least, most in zip(masses, lower, upper):
        numbers = np.arange(most + 1)
        kept = np.where(numbers >= least, poisson.pmf(numbers, count * mass), 0)
        total = np.convolve(total, kept)[: count + 1]
    inside = total[count] if len(total) > count else 0.0
    return lower.tolist(), upper.tolist(), float(inside / poisson.pmf(count, count * masses.sum()))


def narrowest(of, count, masses, probability):
    outside, inside = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (outside + inside)
        if of(count, masses, middle)[2] < probability:
            outside = middle
        else:
            inside = middle
    return inside


kinds = {"below": below, "within": within}
bands = []
for kind, count, ranks, bins in [
    ("below", 50, 256, 50),
    ("below", 100, 256, 50),
    ("below", 200, 100, 20),
    ("below", 37, 64, 13),
    ("within", 100, 256, 12),
    ("within", 50, 100, 6),
    ("within", 300, 64, 20),
]:
    masses = masses_of(ranks, bins)
    for pointwise in [0.8, 0.99, None]:
        probability = None if pointwise else float(noise.choice([0.9, 0.95, 0.99]))
        gamma = pointwise or narrowest(kinds[kind], count, masses, probability)
        lower, upper, coverage = kinds[kind](count, masses, gamma)
        bands.append(
            {
                "counts": kind,
                "count": count,
                "masses": masses.tolist(),
                "probability": probability,
                "pointwise": gamma,
                "lower": lower,
                "upper": upper,
                "coverage": coverage,
            }
        )


def reaches(steps, distance):
    """By reflection: the walks that stay nearer are counted at every place where they may end."""
    if distance == 0:
        return 1.0

    def walks(place):
        return comb(steps, (steps + place) // 2) if abs(place) <= steps and (steps + place) % 2 == 0 else 0

    stays = sum(
        walks(place + 4 * image * distance) - walks(2 * distance - place + 4 * image * distance)
        for place in range(1 - distance, distance)
        for image in range(-steps, steps + 1)
    )
    return float(1 - Fraction(stays, 2**steps))


symmetries = []
for name, values in {
    "uniform": noise.uniform(size=100),
    "low": noise.beta(1.0, 1.5, size=100),
    "high": noise.beta(1.6, 1.0, size=60),
    "narrow": noise.beta(0.4, 0.4, size=80),
    "ties": noise.integers(1, 64, size=70) / 64,
    "balanced ties": np.array([0.25, 0.25, 0.25, 0.75, 0.75, 0.75, 0.375, 0.625]),
    "one": np.array([0.3]),
}.items():
    distance = float(ks_2samp(values, 1 - values).statistic)
    steps = int(np.sum(values != 0.5))
    p_value = reaches(steps, round(distance * len(values)))
    symmetries.append({"name": name, "probabilities": values.tolist(), "distance": distance, "p_value": p_value})

made_by = f"ArviZ {arviz.__version__}, SciPy {scipy.__version__}, NumPy {np.__version__}"
print(json.dumps({"made_by": made_by, "bands": bands, "symmetries": symmetries}))
