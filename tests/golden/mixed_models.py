"""Makes mixed_models.json: the posterior of six published mixed models by NumPyro's NUTS, all data in one place.

    python -m venv peers && peers/bin/pip install numpyro==0.22.0 pandas==3.1.1
    PARTITA_DATA=<folder> peers/bin/python tests/golden/mixed_models.py [MODEL ...]

The data are mixed_models/<name>.csv of the Rdatasets. Every entry has mean, sd, their Monte Carlo errors in units of
that sd, and R-hat of each global by four chains of 25,000 draws; `log_sd` is the logarithm of `sd`, as few rounds see it.
Nothing is integrated out: the groups' intercepts are sampled. The Rust twins are in tests/few_rounds/mixed_models.rs.
"""

import json
import os
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS

jax.config.update("jax_enable_x64", True)
FOLDER = Path(os.environ["PARTITA_DATA"]) / "mixed_models"
PRIOR_SD = 5.0  # of every coefficient, and the scale of the half-normal of every standard deviation
WARMUP, DRAWS, CHAINS = 2_000, 25_000, 4


def columns(*all_columns):
    return np.stack([np.asarray(column, float) for column in all_columns], 1)


# Each returns a group of each row, covariates after the intercept, and the likelihood of the linear predictor.


def epil(d):
    """Thall and Vail (1990) as in MASS: seizures in two weeks, `lbase` and `lage` logarithms less their means."""
    treated = d.trt == "progabide"
    x = columns(treated, d.lbase, treated * d.lbase, d.lage, d.V4)
    return d.subject, x, lambda eta, _: numpyro.sample("y", dist.Poisson(jnp.exp(eta)), obs=d.y.to_numpy())


def bacteria(d):
    """MASS: H. influenzae found, by drug (two compliances) and whether the visit is later than week 2."""
    x = columns(d.trt == "drug", d.trt == "drug+", d.week > 2)
    y = (d.y == "y").to_numpy(int)
    return d.ID, x, lambda eta, _: numpyro.sample("y", dist.Bernoulli(logits=eta), obs=y)


def cbpp(d):
    """Lesnoff et al. (2004) as in lme4: new cases among the cattle of a herd in four periods."""
    x = columns(*(d.period == period for period in (2, 3, 4)))
    total, y = d["size"].to_numpy(), d.incidence.to_numpy()
    return d.herd, x, lambda eta, _: numpyro.sample("y", dist.Binomial(total, logits=eta), obs=y)


def respiratory(d):
    """Koch et al. (1990) as in geepack: good status at four visits of patients of two centres; age in decades from 33."""
    x = columns(d.center == 2, d.treat == "A", d.sex == "M", (d.age - 33) / 10, d.baseline)
    patient = d.center * 1000 + d.id
    return patient, x, lambda eta, _: numpyro.sample("y", dist.Bernoulli(logits=eta), obs=d.outcome.to_numpy())


def toenail(d):
    """De Backer et al. (1998) as in lme4: moderate or severe infection over months of two treatments."""
    treated = (d.treatment == "terbinafine").to_numpy(float)
    x = columns(treated, d.time, treated * d.time)
    y = (d.outcome == "moderate or severe").to_numpy(int)
    return d.patientID, x, lambda eta, _: numpyro.sample("y", dist.Bernoulli(logits=eta), obs=y)


def radon(d):
    """Gelman and Hill (2007): log radon of homes by floor and by the uranium of their county."""
    x = columns(d.basement, d.uranium)
    return d.county, x, lambda eta, sigma: numpyro.sample("y", dist.Normal(eta, sigma), obs=d["log.radon"].to_numpy())


MODELS = dict(epil=epil, bacteria=bacteria, cbpp=cbpp, respiratory=respiratory, toenail=toenail, radon=radon)


def joint(name, group, groups, x, likelihood):
    beta = numpyro.sample("beta", dist.Normal(0, PRIOR_SD).expand([1 + x.shape[1]]))
    sd = numpyro.sample("sd", dist.HalfNormal(PRIOR_SD))
    sigma = numpyro.sample("sigma", dist.HalfNormal(PRIOR_SD)) if name == "radon" else None
    with numpyro.plate("group", groups):
        b = numpyro.sample("b", dist.Normal(0, 1))
    likelihood(beta[0] + x @ beta[1:] + sd * b[group], sigma)


def moments(draws):
    """Of chains x draws. The error of the sd is that of the mean square, by its own effective sample size."""
    mean, sd = draws.mean(), draws.std(ddof=1)
    squares = (draws - mean) ** 2
    ess, of_squares = effective_sample_size(draws), effective_sample_size(squares)
    return dict(
        mean=float(mean),
        sd=float(sd),
        mean_error=float(1 / np.sqrt(ess)),
        sd_error=float(squares.std() / np.sqrt(of_squares) / (2 * sd**2)),
        r_hat=float(split_gelman_rubin(draws)),
    )


def main():
    path = Path(__file__).with_suffix(".json")
    out = json.loads(path.read_text()) if path.exists() else {}
    versions = f"numpyro {numpyro.__version__}, jax {jax.__version__}"
    out["made_by"] = f"{versions}, NUTS, float64, non-centred, {CHAINS} chains of {DRAWS} after {WARMUP}"
    for index, (name, read) in enumerate(MODELS.items()):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        started = time.time()
        group, x, likelihood = read(pandas.read_csv(FOLDER / f"{name}.csv"))
        group, names = pandas.factorize(group)
        kernel = NUTS(joint, target_accept_prob=0.9)
        mcmc = MCMC(kernel, num_warmup=WARMUP, num_samples=DRAWS, num_chains=CHAINS, chain_method="sequential", progress_bar=False)
        mcmc.run(jax.random.PRNGKey(20_261_124 + index), name, group, len(names), x, likelihood, extra_fields=("diverging",))
        found = mcmc.get_samples(group_by_chain=True)
        numbers = {f"beta[{k}]": found["beta"][..., k] for k in range(1 + x.shape[1])}
        for scale in ("sd", "sigma"):
            if scale in found:
                numbers |= {scale: found[scale], f"log_{scale}": jnp.log(found[scale])}
        reference = {label: moments(np.asarray(draws)) for label, draws in numbers.items()}
        divergences = int(mcmc.get_extra_fields()["diverging"].sum())
        out[name] = dict(rows=len(x), groups=len(names), divergences=divergences, reference=reference)
        path.write_text(json.dumps(out, indent=1) + "\n")
        print(name, f"{time.time() - started:.0f} s, {divergences} divergences", flush=True)
        for label, own in reference.items():
            print("  ", label, {k: round(v, 4) for k, v in own.items()}, flush=True)


if __name__ == "__main__":
    main()
