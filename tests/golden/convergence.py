"""Golden numbers for R-hat and effective sample sizes of Markov chains, by ArviZ.

    python -m pip install arviz==0.23.4 numpyro==0.22.0 numpy scipy
    python tests/golden/convergence.py > tests/golden/convergence.json
"""

import json
import warnings

warnings.filterwarnings("ignore")
import arviz
import numpy as np
import numpyro
from numpyro.diagnostics import gelman_rubin
from scipy.stats import norm, rankdata

noise = np.random.default_rng(20241121)


def autoregressive(chains, draws, memory):
    values = np.zeros((chains, draws))
    values[:, 0] = noise.normal(size=chains)
    for draw in range(1, draws):
        values[:, draw] = memory * values[:, draw - 1] + np.sqrt(1 - memory**2) * noise.normal(size=chains)
    return values


def scores(values):
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, -half:]])
    return norm.ppf((rankdata(halves).reshape(halves.shape) - 0.375) / (halves.size + 0.25)), halves


shifted = autoregressive(4, 60, 0.3)
shifted[2] += 1.0
wider = autoregressive(4, 60, 0.0)
wider[1] *= 4.0
cases = {
    "independent": noise.normal(size=(4, 100)),
    "dependent": autoregressive(4, 120, 0.9),
    "alternating": autoregressive(3, 100, -0.6),
    "one chain apart": shifted,
    "one chain wider": wider,
    "drifting": autoregressive(2, 80, 0.5) + np.linspace(0.0, 3.0, 80),
    "ties": np.round(autoregressive(4, 60, 0.5)),
    "odd length": autoregressive(2, 51, 0.4),
    "one chain": autoregressive(1, 150, 0.7),
    "heavy tails": noise.standard_cauchy(size=(4, 60)),
    "very short": noise.normal(size=(2, 5)),
}
out = []
for name, values in cases.items():
    values = np.round(values, 5)
    case = {
        "name": name,
        "chains": values.tolist(),
        "r_hat": float(arviz.rhat(values, method="rank")),
        "bulk": float(arviz.ess(values, method="bulk")),
        "tail": float(arviz.ess(values, method="tail")),
    }
    # A second program: R-hat by NumPyro of normal scores by SciPy.
    located, halves = scores(values)
    distance = np.abs(halves - np.median(halves))
    folded = norm.ppf((rankdata(distance).reshape(distance.shape) - 0.375) / (distance.size + 0.25))
    second = max(float(gelman_rubin(located)), float(gelman_rubin(folded)))
    if len(values) == 1:
        case["r_hat"] = second  # ArviZ wants two chains for R-hat, though the halves of one will do
    assert abs(second - case["r_hat"]) < 1e-6 * case["r_hat"], (name, second, case["r_hat"])
    out.append(case)
print(json.dumps({"made_by": f"ArviZ {arviz.__version__}; R-hat also by NumPyro {numpyro.__version__}", "cases": out}))
