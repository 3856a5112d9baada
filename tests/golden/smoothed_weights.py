"""Golden numbers for Pareto-smoothed importance weights, by ArviZ.

    python -m pip install arviz==0.23.4 numpy scipy
    python tests/golden/smoothed_weights.py > tests/golden/smoothed_weights.json
"""

import json
import warnings

warnings.filterwarnings("ignore")
import arviz
import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm, t

noise = np.random.default_rng(20261124)


def ratios(target, proposal, draws):
    return target.logpdf(draws) - proposal.logpdf(draws)


def drawn(count, target, proposal):
    return ratios(target, proposal, proposal.rvs(count, random_state=noise))


cases = {
    "short tail": drawn(200, norm(), t(5)),
    "normal, shifted": drawn(400, norm(0.7), norm()),
    "heavy tail": drawn(300, norm(0, 1.6), norm()),
    "very heavy tail": drawn(200, t(2), norm()),
    "hardly any overlap": drawn(120, norm(4, 1), norm()),
    "large constant": drawn(150, norm(), t(5)) - 5000.0,
    "some zero": np.concatenate([drawn(180, norm(), t(5)), np.full(20, -np.inf)]),
    "equal": np.zeros(60),
    "few": drawn(20, norm(), t(5)),
}
out = []
for name, values in cases.items():
    values = np.round(values, 6)
    smoothed, k = arviz.psislw(values.copy())
    smoothed, k = np.asarray(smoothed, dtype=float), float(k)
    sum_of_squares = logsumexp(2 * smoothed)
    out.append(
        {
            "name": name,
            "log_ratios": [None if np.isinf(value) else value for value in values.tolist()],
            "log_weights": [None if np.isinf(value) else value for value in smoothed.tolist()],
            "pareto_k": None if np.isinf(k) else k,
            "effective_sample_size": float(np.exp(-sum_of_squares)),
        }
    )
print(json.dumps({"made_by": f"ArviZ {arviz.__version__}", "cases": out}))
