"""The posterior of a zero-inflated negative binomial regression whose zero inflation may be none, for
tests/formula/shelf.rs: python zero_inflated.py > zero_inflated.json

Articles of 915 biochemists (Long 1990; family_data/bioChemists.csv), with log odds of more zeros that are linear in
log(1 + articles of the mentor). The priors are those that `partita fit` prints. Two in a hundred of the posterior are a
plain negative binomial, where the intercept of the log odds is anything far below zero. Chains cross to there too
seldom: the posterior is sampled by importance, from Student's t around chains that were started on both sides.
NumPy 2.5.5, SciPy 1.18.1.
"""
import csv
import json

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import multivariate_normal, multivariate_t

rows = list(csv.DictReader(open("family_data/bioChemists.csv")))
columns = [[1, r["fem"] == "Women", r["mar"] == "Single", r["kid5"], r["phd"], r["ment"]] for r in rows]
x, y = np.array(columns, dtype=float), np.array([float(r["art"]) for r in rows])
z = np.c_[np.ones(len(y)), np.log1p(x[:, 5])]
names = ["(Intercept)", "femWomen", "marSingle", "kid5", "phd", "ment", "shape", "zi_(Intercept)", "zi_log1p(ment)"]
counts, place = np.unique(y, return_inverse=True)
centre, scale = np.array([0.5264, 0, 0, 0, 0, 0]), np.array([9.211, 5.013, 5.283, 3.268, 2.54, 0.2636])
odds = np.array([5.499, 2.621])


def log_joint(points):
    """At points of coefficients, log shape and log odds, 500 at a time."""
    found = []
    for t in np.array_split(points, max(1, len(points) // 500)):
        beta, log_shape, zi = t[:, :6], t[:, 6:7], t[:, 7:]
        shape, eta, inflated = np.exp(log_shape), beta @ x.T, zi @ z.T
        of_counts = gammaln(counts + shape) - gammaln(shape) - gammaln(counts + 1)
        log_sum = np.logaddexp(log_shape, eta)
        log_p = of_counts[:, place] + shape * (log_shape - log_sum) + y * (eta - log_sum)
        counted, more = log_p - np.logaddexp(0, inflated), -np.logaddexp(0, -inflated)
        likelihood = np.where(y == 0, np.logaddexp(more, counted), counted).sum(1)
        prior = -0.5 * (((beta - centre) / scale) ** 2).sum(1) - 0.5 * ((zi / odds) ** 2).sum(1)
        found.append(likelihood + prior + 0.01 * log_shape[:, 0] - 0.01 * shape[:, 0])
    found = np.concatenate(found)
    return np.where(np.isfinite(found), found, -np.inf)


rng = np.random.default_rng(5)
starts = np.array([[0.52, -0.21, -0.14, -0.17, 0.002, 0.026, 0.95, -1, -1.8], [0.4, -0.21, -0.15, -0.18, 0.02, 0.029, 0.82, -7, -2]])
step = np.array([0.12, 0.07, 0.08, 0.05, 0.035, 0.0035, 0.13, 0.5, 0.6])
factor = np.array([np.diag(step), np.diag(step)])
at = np.repeat(starts, 32, axis=0)
group, now, kept = np.repeat([0, 1], 32), log_joint(at), []
for index in range(6000):
    jump = np.einsum("nij,nj->ni", factor[group], rng.standard_normal(at.shape)) * 2.38 / 3 * rng.choice([0.3, 1, 2], (64, 1))
    there = at + jump
    new = log_joint(there)
    moves = np.log(rng.random(64)) < new - now
    at, now = np.where(moves[:, None], there, at), np.where(moves, new, now)
    kept.append(at)
    if index in (1000, 2000):
        late = np.concatenate(kept[index // 2 :])
        factor = np.array([np.linalg.cholesky(np.cov(late[own].T)) for own in (late[:, 7] > -4, late[:, 7] <= -4)])
        group = (at[:, 7] <= -4).astype(int)
late = np.concatenate(kept[3000:])
inner, outer = late[late[:, 7] > -4], late[late[:, 7] <= -4]
parts = [
    (20_000, multivariate_t(inner.mean(0), 1.3 * np.cov(inner.T), 6)),
    (20_000, multivariate_t(inner.mean(0), 4 * np.cov(inner.T), 4)),
    (30_000, multivariate_t(outer.mean(0), 1.6 * np.cov(outer.T), 6)),
    # The prior of the log odds, beside a plain negative binomial.
    (30_000, multivariate_normal(np.r_[outer.mean(0)[:7], 0, 0], np.block([[1.3 * np.cov(outer[:, :7].T), np.zeros((7, 2))], [np.zeros((2, 7)), np.diag(odds**2)]]))),
]
draws = np.concatenate([own.rvs(count, random_state=rng) for count, own in parts])
total = sum(count for count, _ in parts)
proposal = logsumexp([own.logpdf(draws) + np.log(count / total) for count, own in parts], axis=0)
log_ratios = log_joint(draws) - proposal
weights = np.exp(log_ratios - logsumexp(log_ratios))
natural = draws.copy()
natural[:, 6] = np.exp(draws[:, 6])
means = weights @ natural
sds = np.sqrt(weights @ (natural - means) ** 2)
print(json.dumps({"names": names, "means": list(means), "sds": list(sds), "worth": 1 / (weights**2).sum(),
                  "none": weights[draws[:, 7] < -4].sum()}))
