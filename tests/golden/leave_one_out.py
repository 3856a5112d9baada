"""Golden numbers for PSIS-LOO, by ArviZ.

    python -m pip install arviz==0.23.4 numpy scipy
    python tests/golden/leave_one_out.py > tests/golden/leave_one_out.json
"""

import json
import warnings

warnings.filterwarnings("ignore")
import arviz
import numpy as np
from scipy.stats import norm, t

noise = np.random.default_rng(20261125)


def normal(outcomes, draws, scale):
    mean = noise.normal(outcomes.mean(), 1 / np.sqrt(len(outcomes)), draws)
    return norm(mean[:, None], scale).logpdf(outcomes)


cases = {
    "normal": normal(noise.normal(size=6), 400, 1.0),
    "an outlier": normal(np.append(noise.normal(size=5), 6.0), 300, 0.4),
    "heavy tails": t(3, noise.standard_t(3, size=(200, 1))).logpdf(noise.standard_t(2, size=4)),
}
out = []
for name, values in cases.items():
    values = np.round(values, 6)
    posterior = {"mean": np.zeros((1, len(values)))}
    data = arviz.from_dict(posterior=posterior, log_likelihood={"y": values[None]})
    found = arviz.loo(data, pointwise=True, reff=1.0)
    out.append(
        {
            "name": name,
            "observations": values.shape[1],
            "log_likelihood": values.ravel().tolist(),
            "log_densities": found.loo_i.values.tolist(),
            "pareto_k": found.pareto_k.values.tolist(),
            "sum": float(found.elpd_loo),
            "standard_error": float(found.se),
            "effective_parameters": float(found.p_loo),
            "above": int((found.pareto_k.values > 0.7).sum()),
        }
    )
print(json.dumps({"made_by": f"ArviZ {arviz.__version__}", "cases": out}))
