"""Writes accounting.json: epsilon of Gaussian releases, Rényi divergences, and draws of another sampler.

    pip install "dp-accounting==0.6.0" "opendp==0.16.0" "mpmath==1.4.1" "scipy==1.17.1"
    python privacy/tests/golden/accounting.py

Divergences come from the integral in mpmath with 30 digits and are compared here with dp-accounting's. Epsilons are
dp-accounting's at its own orders, which are coarser than ours, so that ours may be smaller by a part in a thousand;
`pld` is its privacy loss distribution, which is exact to its discretisation and may not be larger than ours. The draws
are counts of OpenDP's discrete Gaussian, which uses the system's random bits: they differ from run to run, and are
compared here with the exact distribution.
"""

import importlib.metadata as metadata
import json
import math
from collections import Counter
from pathlib import Path

import mpmath as mp
import opendp.prelude as dp
import scipy.stats as stats
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, pld, rdp

mp.mp.dps = 30
DELTA = 1e-5


def divergence(order, rate, noise):
    """log E_{z ~ N(0, noise²)} (1 - rate + rate exp((2z - 1) / (2 noise²)))^order / (order - 1)."""
    order, rate, noise = mp.mpf(order), mp.mpf(rate), mp.mpf(noise)
    density = lambda z: mp.exp(-z * z / (2 * noise**2)) / (noise * mp.sqrt(2 * mp.pi))
    ratio = lambda z: 1 - rate + rate * mp.exp((2 * z - 1) / (2 * noise**2))
    ends = [-20 * noise, 0, order / 2, order, order + 20 * noise]
    return float(mp.log(mp.quad(lambda z: density(z) * ratio(z) ** order, ends, maxdegree=9)) / (order - 1))


def event(noise, rate, releases):
    release = GaussianDpEvent(noise)
    return SelfComposedDpEvent(release if rate == 1 else PoissonSampledDpEvent(rate, release), releases)


def epsilons(noise, rate, releases):
    accountant = rdp.RdpAccountant()
    accountant.compose(event(noise, rate, releases))
    pairs = zip(accountant._orders, accountant._rdp)
    classic = min(value + math.log(1 / DELTA) / (order - 1) for order, value in pairs)
    exact = pld.PLDAccountant()
    exact.compose(event(noise, rate, releases))
    return {"noise": noise, "rate": rate, "releases": releases, "delta": DELTA, "classic": float(classic),
            "improved": float(accountant.get_epsilon(DELTA)), "pld": float(exact.get_epsilon(DELTA))}


def draws(scale, count):
    dp.enable_features("contrib")
    mechanism = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float), scale=float(scale))
    counts = Counter(mechanism([0] * count))
    edge = math.floor(3 * scale)
    mass = {k: math.exp(-k * k / (2 * scale**2)) for k in range(-40 * scale, 40 * scale + 1)}
    total = sum(mass.values())
    inside = [k for k in range(-edge, edge + 1)]
    found = [counts[k] for k in inside] + [sum(c for k, c in counts.items() if abs(k) > edge)]
    expected = [count * mass[k] / total for k in inside]
    expected.append(count - sum(expected))
    probability = stats.chisquare(found, expected).pvalue
    assert probability > 1e-6, f"OpenDP at scale {scale}: p = {probability}"
    return {"scale": scale, "count": count, "counts": {str(k): c for k, c in sorted(counts.items())}}


ORDERS = [(1.5, 0.01, 1.0), (2, 0.01, 1.0), (8.1, 256 / 60000, 1.1), (17, 256 / 60000, 1.3), (3.8, 256 / 60000, 0.7),
          (64, 0.1, 4.0), (300, 0.001, 2.0), (2.5, 0.5, 0.5), (5, 1, 3.0)]
found = []
for order, rate, noise in ORDERS:
    value = divergence(order, rate, noise)
    accountant = rdp.RdpAccountant(orders=[order])
    accountant.compose(event(noise, rate, 1))
    # Its series for orders that are not whole adds the sizes of terms of alternating sign: a bound from above.
    excess = accountant._rdp[0] / value - 1
    assert -1e-7 < excess < (1e-7 if float(order).is_integer() else 0.1), (order, rate, noise, excess)
    found.append({"order": order, "rate": rate, "noise": noise, "divergence": value})

rate = 256 / 60000
CASES = [(1.3, rate, 3515), (1.1, rate, 14062), (0.7, rate, 10546), (10.0, 1, 20), (1.0, 1, 1), (18.1, 1, 20),
         (2.0, 1, 3), (50.0, 1, 100), (4.0, 0.05, 200)]
versions = {name: metadata.version(name) for name in ("dp-accounting", "opendp", "mpmath", "scipy")}
out = {"versions": versions, "divergences": found, "epsilons": [epsilons(*case) for case in CASES],
       "draws": [draws(3, 100_000), draws(20, 100_000)]}
Path(__file__).with_name("accounting.json").write_text(json.dumps(out, indent=1) + "\n")
