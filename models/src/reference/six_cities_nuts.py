"""Makes six_cities_nuts.json: the posterior of the six-cities model by NumPyro's NUTS, pooled and of each silo alone.

    python -m venv peers && peers/bin/pip install numpyro==0.22.0 jax==0.10.2
    peers/bin/python models/src/reference/six_cities_nuts.py [FILE]

It prints how far each number is from the table beside it, in standard errors of both, and writes FILE. The table itself
was made by the same program and settings before this script was kept, with a seed that is not known: of its 15 means and
15 standard deviations the farthest from a run of this script is 2.6 standard errors off. The data are those of
`models/src/six_cities.rs`, from the counts of Fitzmaurice and Laird (1993), table 1.
"""

import json
import sys
from pathlib import Path

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import summary
from numpyro.infer import MCMC, NUTS

numpyro.enable_x64()
TABLE = Path(__file__).with_suffix(".json")
AGES = np.array([-2.0, -1.0, 0.0, 1.0])
NOT_SMOKING = [237, 10, 15, 4, 16, 2, 7, 3, 24, 3, 3, 2, 6, 2, 5, 11]
SMOKING = [118, 6, 8, 2, 11, 1, 6, 4, 7, 3, 3, 1, 4, 2, 4, 7]
NAMES = ["beta0", "beta_smoke", "beta_age", "beta_smoke_age", "omega"]
PROBABILITIES = [0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975]
CHAINS, WARMUP, DRAWS, ACCEPT, SEED = 2, 1_500, 4_000, 0.9, 2_023


def children():
    """Whether the mother smoked, and wheeze at each age: child by child, in the order of their ids."""
    groups = [(smoke, pattern, count) for smoke, counts in ((0, NOT_SMOKING), (1, SMOKING)) for pattern, count in enumerate(counts)]
    smoke = np.repeat([group[0] for group in groups], [group[2] for group in groups])
    pattern = np.repeat([group[1] for group in groups], [group[2] for group in groups])
    return smoke.astype(float), (pattern[:, None] >> np.array([3, 2, 1, 0])) & 1


def model(smoke, wheeze):
    beta = numpyro.sample("beta", dist.Normal(0.0, 10.0).expand([4]))
    omega = numpyro.sample("omega", dist.Normal(0.0, 10.0))
    with numpyro.plate("child", len(smoke), dim=-2):
        standard = numpyro.sample("standard", dist.Normal(0.0, 1.0))
        by_smoke = beta[0] + beta[1] * smoke[:, None]
        by_age = (beta[2] + beta[3] * smoke[:, None]) * AGES
        with numpyro.plate("age", len(AGES), dim=-1):
            logits = by_smoke + by_age + jax.numpy.exp(-omega) * standard
            numpyro.sample("wheeze", dist.Bernoulli(logits=logits), obs=wheeze)


def posterior(label, smoke, wheeze, seed):
    nuts = NUTS(model, target_accept_prob=ACCEPT)
    chains = MCMC(
        nuts, num_warmup=WARMUP, num_samples=DRAWS, num_chains=CHAINS, chain_method="sequential", progress_bar=False
    )
    chains.run(jax.random.PRNGKey(seed), smoke, wheeze, extra_fields=("diverging",))
    samples = chains.get_samples(group_by_chain=True)
    draws = np.concatenate([samples["beta"], samples["omega"][..., None]], axis=-1)
    told = summary({"all": draws})["all"]
    flat = draws.reshape(-1, len(NAMES))
    quantiles = np.quantile(flat, PROBABILITIES, axis=0)
    return {
        "label": label,
        "children": len(smoke),
        "draws": len(flat),
        "mean": flat.mean(axis=0).tolist(),
        "sd": flat.std(axis=0, ddof=1).tolist(),
        "quantiles": [{"probability": p, "values": q.tolist()} for p, q in zip(PROBABILITIES, quantiles)],
        "ess": told["n_eff"].tolist(),
        "rhat": told["r_hat"].tolist(),
        "divergences": int(chains.get_extra_fields()["diverging"].sum()),
    }


def compare(own, other):
    """The largest distance of means and of logarithms of standard deviations, in standard errors of both."""
    own, other = ({key: np.array(one[key]) for key in ("mean", "sd", "ess")} for one in (own, other))
    share = 1 / own["ess"] + 1 / other["ess"]
    means = np.abs(own["mean"] - other["mean"]) / (other["sd"] * np.sqrt(share))
    sds = np.abs(np.log(own["sd"] / other["sd"])) / np.sqrt(share / 2)
    return means.max(), sds.max()


def main():
    smoke, wheeze = children()
    silo_a = np.sort(np.random.default_rng(2023).permutation(len(smoke))[:300])
    silo_b = np.setdiff1d(np.arange(len(smoke)), silo_a)
    parts = [("pooled", np.arange(len(smoke))), ("silo A (300)", silo_a), ("silo B (237)", silo_b)]
    posteriors = [posterior(label, smoke[ids], wheeze[ids], SEED + at) for at, (label, ids) in enumerate(parts)]
    worst = max(max(own["rhat"]) for own in posteriors)
    out = {
        "what": "Posterior of the logistic mixed model of the six-cities wheeze data (537 children, four ages): logit p = "
        "beta0 + beta_smoke*smoke + beta_age*age + beta_smoke_age*smoke*age + b, b | omega ~ Normal(0, sd = exp(-omega)), "
        "beta and omega ~ Normal(0, sd = 10); children pooled and in each silo alone.",
        "made_by": f"six_cities_nuts.py: NumPyro {numpyro.__version__} NUTS, JAX {jax.__version__}, float64, random intercepts "
        f"non-centred, {CHAINS} chains x {DRAWS} draws after {WARMUP} warm-up, target accept {ACCEPT}, seed {SEED}; every "
        f"R-hat at most {worst:.4f}, {sum(own['divergences'] for own in posteriors)} divergences",
        "split": "numpy default_rng(2023).permutation(537); first 300 ids = silo A",
        "names": NAMES,
        "posteriors": posteriors,
        "silo_a": silo_a.tolist(),
    }
    before = json.loads(TABLE.read_text())
    assert before["silo_a"] == out["silo_a"], "the silos are not those of the table"
    for own, other in zip(posteriors, before["posteriors"]):
        means, sds = compare(own, other)
        print(f"{own['label']}: means within {means:.2f}, standard deviations within {sds:.2f} standard errors of the table")
        print("  mean", np.round(own["mean"], 4), "table", np.round(other["mean"], 4))
        print("  sd  ", np.round(own["sd"], 4), "table", np.round(other["sd"], 4))
        print("  ess ", np.round(own["ess"]), "table", np.round(other["ess"]), "divergences", own["divergences"])
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
