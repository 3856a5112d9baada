"""Makes cookbook.json: data simulated for the book's cookbook and the posterior of each model by NumPyro's NUTS.

    python -m venv peers && peers/bin/pip install numpyro==0.22.0 && peers/bin/python tests/golden/cookbook.py

Every entry has the data of two silos (three for `levels`), column by column, and mean, sd, Monte Carlo error of the mean
and effective sample size of each global by four chains. The Rust twin of each model is a page of the cookbook.
"""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import summary
from numpyro.infer import MCMC, NUTS

jax.config.update("jax_enable_x64", True)
numpyro.set_host_device_count(1)
SILOS = 2


def expit(x):
    return 1 / (1 + np.exp(-x))


# Each `data_*` returns one dictionary of columns a silo; each `model_*` takes the silos and declares the joint model.


def data_unequal_groups(rng):
    silos = []
    for patients in (40, 30):
        patient, treated, week, y = [], [], [], []
        for i in range(patients):
            b = rng.normal(0, 1.2)
            for t in range(rng.integers(1, 8)):
                arm = i % 2
                patient.append(i), treated.append(arm), week.append(t / 4)
                y.append(int(rng.random() < expit(-0.3 + 0.8 * arm - 0.5 * t / 4 + b)))
        silos.append(dict(patient=patient, treated=treated, week=week, y=y))
    return silos


def model_unequal_groups(silos):
    beta = numpyro.sample("beta", dist.Normal(0, 2.5).expand([3]))
    sd = numpyro.sample("sd", dist.HalfNormal(2.0))
    for j, d in enumerate(silos):
        patient = np.array(d["patient"])
        with numpyro.plate(f"p{j}", patient.max() + 1):
            b = numpyro.sample(f"b{j}", dist.Normal(0, 1))
        eta = beta[0] + beta[1] * np.array(d["treated"]) + beta[2] * np.array(d["week"]) + sd * b[patient]
        numpyro.sample(f"y{j}", dist.Bernoulli(logits=eta), obs=np.array(d["y"]))


def data_levels(rng):
    silos = []
    for clinics in (5, 7, 4):
        hospital = rng.normal(0, 0.6)
        clinic, patient, y = [], [], []
        p = 0
        for c in range(clinics):
            u = rng.normal(0, 0.8)
            for _ in range(rng.integers(3, 9)):
                b = rng.normal(0, 1.0)
                clinic.append(c)
                for _ in range(rng.integers(1, 5)):
                    patient.append(p)
                    y.append(float(np.round(2.0 + hospital + u + b + rng.normal(0, 0.7), 3)))
                p += 1
        silos.append(dict(clinic_of_patient=clinic, patient=patient, y=y))
    return silos


def collapse(value, variance, group, groups):
    """Values N(m, variance) of each group as one value of that mean: the log constant, the value, and its variance."""
    total = lambda x: jax.ops.segment_sum(x, group, groups)
    weight = total(1 / variance)
    mean = total(value / variance) / weight
    constant = dist.Normal(mean[group], jnp.sqrt(variance)).log_prob(value).sum()
    return constant + 0.5 * jnp.log(2 * jnp.pi / weight).sum(), mean, 1 / weight


def model_levels(silos):
    # Everything below the four sds is normal and integrated out: the chain then has five numbers and no funnel of rows.
    level = numpyro.sample("level", dist.Normal(0, 5))
    sd = {k: numpyro.sample(f"sd_{k}", dist.HalfNormal(2.0)) for k in ("hospital", "clinic", "patient", "visit")}
    for j, d in enumerate(silos):
        y, patient, clinic = np.array(d["y"]), np.array(d["patient"]), np.array(d["clinic_of_patient"])
        a, y, v = collapse(y, sd["visit"] ** 2 * jnp.ones(len(y)), patient, len(clinic))
        b, y, v = collapse(y, v + sd["patient"] ** 2, clinic, clinic.max() + 1)
        c, y, v = collapse(y, v + sd["clinic"] ** 2, np.zeros(len(y), int), 1)
        top = dist.Normal(level, jnp.sqrt(v + sd["hospital"] ** 2)).log_prob(y).sum()
        numpyro.factor(f"y{j}", a + b + c + top)


def data_survival(rng):
    silos = []
    for n in (80, 60):
        x = rng.normal(0, 1, n)
        arm = np.arange(n) % 2
        t = rng.weibull(1.4, n) * np.exp(1.2 + 0.5 * arm - 0.4 * x)
        c = rng.exponential(6.0, n)
        silos.append(
            dict(
                age=np.round(x, 3).tolist(),
                arm=arm.tolist(),
                time=np.maximum(np.round(np.minimum(t, c), 3), 0.001).tolist(),
                died=(t <= c).astype(int).tolist(),
            )
        )
    return silos


def model_survival(silos):
    shape = numpyro.sample("shape", dist.LogNormal(0.0, 1.0))
    beta = numpyro.sample("beta", dist.Normal(0, 2.5).expand([3]))
    for j, d in enumerate(silos):
        x, arm, t, died = (np.array(d[k]) for k in ("age", "arm", "time", "died"))
        weibull = dist.Weibull(jnp.exp(beta[0] + beta[1] * arm + beta[2] * x), shape)
        z = (t / weibull.scale) ** shape
        numpyro.factor(f"t{j}", jnp.where(died == 1, weibull.log_prob(t), -z).sum())


def data_ordinal(rng):
    silos = []
    for n in (90, 70):
        x = rng.normal(0, 1, n)
        arm = np.arange(n) % 2
        latent = 0.9 * arm + 0.6 * x + rng.logistic(0, 1, n)
        grade = np.searchsorted([-1.0, 0.3, 1.8], latent)
        silos.append(dict(age=np.round(x, 3).tolist(), arm=arm.tolist(), grade=grade.tolist()))
    return silos


def model_ordinal(silos):
    beta = numpyro.sample("beta", dist.Normal(0, 2.5).expand([2]))
    # A product of N(0, 3) densities on ordered vectors, up to a constant.
    cut = numpyro.sample(
        "cut", dist.TransformedDistribution(dist.Normal(0, 1).expand([3]).to_event(1), dist.transforms.OrderedTransform())
    )
    base = dist.TransformedDistribution(dist.Normal(0, 1).expand([3]).to_event(1), dist.transforms.OrderedTransform())
    numpyro.factor("prior", dist.Normal(0, 3).log_prob(cut).sum() - base.log_prob(cut))
    for j, d in enumerate(silos):
        eta = beta[0] * np.array(d["arm"]) + beta[1] * np.array(d["age"])
        numpyro.sample(f"y{j}", dist.OrderedLogistic(eta, cut), obs=np.array(d["grade"]))


def data_zeros(rng):
    silos = []
    for n in (90, 70):
        x = rng.normal(0, 1, n)
        y = np.where(rng.random(n) < 0.3, 0, rng.poisson(np.exp(0.8 + 0.5 * x)))
        silos.append(dict(x=np.round(x, 3).tolist(), y=y.tolist()))
    return silos


def model_zeros(silos):
    beta = numpyro.sample("beta", dist.Normal(0, 2.5).expand([2]))
    gate = numpyro.sample("gate", dist.Normal(0, 1.5))
    for j, d in enumerate(silos):
        rate = jnp.exp(beta[0] + beta[1] * np.array(d["x"]))
        numpyro.sample(f"y{j}", dist.ZeroInflatedDistribution(dist.Poisson(rate), gate_logits=gate), obs=np.array(d["y"]))


def data_mixture(rng):
    silos = []
    for n in (80, 60):
        low = rng.random(n) < 0.35
        y = np.where(low, rng.normal(-1.0, 0.7, n), rng.normal(2.0, 1.0, n))
        silos.append(dict(y=np.round(y, 3).tolist()))
    return silos


def model_mixture(silos):
    logit = numpyro.sample("logit", dist.Normal(0, 1.5))
    base = dist.TransformedDistribution(dist.Normal(0, 1).expand([2]).to_event(1), dist.transforms.OrderedTransform())
    mean = numpyro.sample("mean", base)
    numpyro.factor("prior", dist.Normal(0, 3).log_prob(mean).sum() - base.log_prob(mean))
    sd = numpyro.sample("sd", dist.HalfNormal(2.0).expand([2]))
    for j, d in enumerate(silos):
        y = np.array(d["y"])
        low = jax.nn.log_sigmoid(logit) + dist.Normal(mean[0], sd[0]).log_prob(y)
        high = jax.nn.log_sigmoid(-logit) + dist.Normal(mean[1], sd[1]).log_prob(y)
        numpyro.factor(f"y{j}", jnp.logaddexp(low, high).sum())


def data_missing(rng):
    silos = []
    for n in (60, 50):
        x = rng.normal(1.0, 1.5, n)
        y = 0.5 + 0.8 * x + rng.normal(0, 0.9, n)
        seen = rng.random(n) < 0.75
        silos.append(
            dict(x=np.where(seen, np.round(x, 3), 0.0).tolist(), seen=seen.astype(int).tolist(), y=np.round(y, 3).tolist())
        )
    return silos


def model_missing(silos):
    beta = numpyro.sample("beta", dist.Normal(0, 2.5).expand([2]))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    centre = numpyro.sample("centre", dist.Normal(0, 2.5))
    spread = numpyro.sample("spread", dist.HalfNormal(2.0))
    for j, d in enumerate(silos):
        x, seen, y = np.array(d["x"]), np.array(d["seen"]) == 1, np.array(d["y"])
        numpyro.sample(f"x{j}", dist.Normal(centre, spread), obs=x[seen])
        absent = numpyro.sample(f"absent{j}", dist.Normal(centre, spread).expand([int((~seen).sum())]))
        numpyro.sample(f"y{j}", dist.Normal(beta[0] + beta[1] * x[seen], sigma), obs=y[seen])
        numpyro.sample(f"z{j}", dist.Normal(beta[0] + beta[1] * absent, sigma), obs=y[~seen])


def data_process(rng):
    silos = []
    for n in (50, 40):
        x = rng.uniform(-1, 1, n)
        silos.append(dict(x=np.round(x, 3).tolist(), y=np.round(np.sin(4 * x) + rng.normal(0, 0.3, n), 3).tolist()))
    return silos


def model_process(silos, basis=12, boundary=1.5):
    # Hilbert-space approximation of a Gaussian process with a squared exponential kernel (Solin and Sarkka 2020).
    amplitude = numpyro.sample("amplitude", dist.HalfNormal(1.5))
    length = numpyro.sample("length", dist.LogNormal(-0.7, 0.5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    weight = numpyro.sample("weight", dist.Normal(0, 1).expand([basis]))
    root = np.arange(1, basis + 1) * np.pi / (2 * boundary)
    spectral = amplitude**2 * jnp.sqrt(2 * jnp.pi) * length * jnp.exp(-0.5 * (length * root) ** 2)
    for j, d in enumerate(silos):
        x = np.array(d["x"])
        phi = np.sin(root * (x[:, None] + boundary)) / np.sqrt(boundary)
        numpyro.sample(f"y{j}", dist.Normal(phi @ (jnp.sqrt(spectral) * weight), sigma), obs=np.array(d["y"]))


def data_robust(rng):
    silos = []
    for n in (60, 50):
        x = rng.normal(0, 1, n)
        silos.append(dict(x=np.round(x, 3).tolist(), y=np.round(1 + 2 * x + 0.6 * rng.standard_t(3, n), 3).tolist()))
    return silos


def model_robust(silos):
    beta = numpyro.sample("beta", dist.Normal(0, 2.5).expand([2]))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    degrees = numpyro.sample("degrees", dist.Gamma(2.0, 0.1))
    for j, d in enumerate(silos):
        mean = beta[0] + beta[1] * np.array(d["x"])
        numpyro.sample(f"y{j}", dist.StudentT(degrees, mean, sigma), obs=np.array(d["y"]))


def data_own_density(rng):
    silos = []
    for n in (60, 50):
        x = rng.normal(0, 1, n)
        silos.append(dict(x=np.round(x, 3).tolist(), y=np.round(rng.gumbel(3 + 0.7 * x, 1.2), 3).tolist()))
    return silos


def model_own_density(silos):
    beta = numpyro.sample("beta", dist.Normal(0, 5.0).expand([2]))
    scale = numpyro.sample("scale", dist.HalfNormal(2.0))
    for j, d in enumerate(silos):
        location = beta[0] + beta[1] * np.array(d["x"])
        numpyro.sample(f"y{j}", dist.Gumbel(location, scale), obs=np.array(d["y"]))


def data_own_operation(rng):
    silos = []
    for n in (40, 30):
        dose = np.round(rng.uniform(0.1, 8, n), 3)
        y = 4.0 * dose**1.5 / (2.0**1.5 + dose**1.5) + rng.normal(0, 0.25, n)
        silos.append(dict(dose=dose.tolist(), y=np.round(y, 3).tolist()))
    return silos


def model_own_operation(silos):
    top = numpyro.sample("top", dist.LogNormal(1.0, 1.0))
    half = numpyro.sample("half", dist.LogNormal(0.5, 1.0))
    slope = numpyro.sample("slope", dist.LogNormal(0.0, 0.5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    for j, d in enumerate(silos):
        dose = np.array(d["dose"])
        numpyro.sample(f"y{j}", dist.Normal(top / (1 + (half / dose) ** slope), sigma), obs=np.array(d["y"]))


def data_ode(rng):
    # Logistic growth x' = r x (1 - x / K): the closed form is the solver's check.
    silos = []
    for n in (12, 10):
        t = np.round(np.linspace(0.5, 8, n), 3)
        x = 10 / (1 + (10 / 0.8 - 1) * np.exp(-0.9 * t))
        silos.append(dict(time=t.tolist(), y=np.round(x * np.exp(rng.normal(0, 0.1, n)), 4).tolist()))
    return silos


def model_ode(silos):
    rate = numpyro.sample("rate", dist.LogNormal(0.0, 0.5))
    capacity = numpyro.sample("capacity", dist.LogNormal(2.0, 0.5))
    start = numpyro.sample("start", dist.LogNormal(0.0, 0.5))
    sigma = numpyro.sample("sigma", dist.HalfNormal(0.5))
    for j, d in enumerate(silos):
        t = np.array(d["time"])
        x = capacity / (1 + (capacity / start - 1) * jnp.exp(-rate * t))
        numpyro.sample(f"y{j}", dist.LogNormal(jnp.log(x), sigma), obs=np.array(d["y"]))


NAMES = [
    "unequal_groups",
    "levels",
    "survival",
    "ordinal",
    "zeros",
    "mixture",
    "missing",
    "process",
    "robust",
    "own_density",
    "own_operation",
    "ode",
]


def local(name):
    """Latents of one silo end in its digit; weights of the basis are not compared one by one."""
    return name[-1].isdigit()


def main():
    path = Path(__file__).with_suffix(".json")
    out = json.loads(path.read_text()) if sys.argv[1:] and path.exists() else {}
    out |= {"made_by": f"numpyro {numpyro.__version__}, jax {jax.__version__}, NUTS, 4 chains of 5,000 after 1,000"}
    for index, name in enumerate(NAMES):
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        silos = globals()[f"data_{name}"](np.random.default_rng(20_261_124 + index))
        kernel = NUTS(globals()[f"model_{name}"], target_accept_prob=0.99 if name == "levels" else 0.95, dense_mass=False)
        mcmc = MCMC(kernel, num_warmup=1_000, num_samples=5_000, num_chains=4, chain_method="vectorized", progress_bar=False)
        mcmc.run(jax.random.PRNGKey(index), silos)
        divergences = int(mcmc.get_extra_fields()["diverging"].sum())
        found = {k: v for k, v in mcmc.get_samples(group_by_chain=True).items() if not local(k)}
        reference = {}
        for site, stats in summary(found).items():
            flat = {k: np.atleast_1d(np.asarray(v)).tolist() for k, v in stats.items()}
            reference[site] = {k: flat[v] for k, v in dict(mean="mean", sd="std", ess="n_eff", rhat="r_hat").items()}
        out[name] = dict(silos=silos, divergences=divergences, reference=reference)
        print(name, divergences, {k: (np.round(v["mean"], 3).tolist(), np.round(v["sd"], 3).tolist(), int(min(v["ess"]))) for k, v in reference.items() if k != "weight"}, flush=True)
    path.write_text(json.dumps(out, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
