"""The posterior of the eight schools by NumPyro's NUTS, long enough that its own error is far below the tests' bounds.

    python -m pip install numpyro==0.22.0 arviz==0.23.4
    python tests/golden/eight_schools.py > tests/golden/eight_schools.json
"""

import json
import warnings

warnings.filterwarnings("ignore")
import arviz
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

numpyro.enable_x64()
EFFECTS = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def model():
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", 8):
        standard = numpyro.sample("standard", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * standard)
        numpyro.sample("y", dist.Normal(theta, ERRORS), obs=EFFECTS)


chains = MCMC(
    NUTS(model, target_accept_prob=0.95), num_warmup=2_000, num_samples=50_000, num_chains=4, chain_method="sequential",
    progress_bar=False,
)
chains.run(jax.random.PRNGKey(20241121), extra_fields=("diverging",))
samples = chains.get_samples(group_by_chain=True)
numbers = {"mu": samples["mu"], "tau": samples["tau"], "log_tau": np.log(samples["tau"])}
numbers |= {f"theta[{school}]": samples["theta"][..., school] for school in range(8)}
out = {}
for name, draws in numbers.items():
    draws = np.asarray(draws)
    out[name] = {
        "mean": float(draws.mean()),
        "sd": float(draws.std(ddof=1)),
        "mean_error": float(arviz.mcse(draws, method="mean")),
        "sd_error": float(arviz.mcse(draws, method="sd")),
        "r_hat": float(arviz.rhat(draws)),
    }
print(json.dumps({
    "made_by": f"NumPyro {numpyro.__version__} NUTS, float64, non-centred, 4 chains x 50,000 draws after 2,000",
    "divergences": int(chains.get_extra_fields()["diverging"].sum()),
    "numbers": out,
}, indent=1))
