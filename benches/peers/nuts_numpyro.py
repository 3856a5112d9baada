"""Times NumPyro's no-U-turn sampler on six cities, compilation included, for comparison with Partita.

    python nuts_numpyro.py            prints one JSON object: microseconds of wall time for each case
    python nuts_numpyro.py --quick    the same with few draws, to test that it runs

The run is that of `benches/nuts.rs` and of the reference posterior: the non-centred logistic mixed model of 537
children, 2 chains of 4,000 draws after 1,500. Each case is timed in its own process, from the model to draws on the
host, so that nothing is compiled before. Chains run in parallel on two devices (`parallel`), as one batch
(`vectorized`) or in sequence; of the first two the faster is given. NumPyro computes no diagnostics here, Partita does.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np

NOT_SMOKING = [237, 10, 15, 4, 16, 2, 7, 3, 24, 3, 3, 2, 6, 2, 5, 11]
SMOKING = [118, 6, 8, 2, 11, 1, 6, 4, 7, 3, 3, 1, 4, 2, 4, 7]
CASES = {
    "nuts": (0.8, ("parallel", "vectorized")),
    "nuts_accept_0.9": (0.9, ("parallel", "vectorized")),
    "nuts_accept_0.9_one_thread": (0.9, ("sequential",)),
}


def children():
    """The design, [537, 4, 4], and the answers, [537, 4]."""
    design, answers = [], []
    for smoke, counts in ((0.0, NOT_SMOKING), (1.0, SMOKING)):
        for pattern, count in enumerate(counts):
            rows = [[1.0, smoke, age, smoke * age] for age in (-2.0, -1.0, 0.0, 1.0)]
            design += count * [rows]
            answers += count * [[float(bool(pattern & bit)) for bit in (8, 4, 2, 1)]]
    return np.array(design), np.array(answers)


def run(method, accept, double, quick):
    """Seconds of one run, and its posterior means."""
    if method == "sequential":
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    import numpyro

    numpyro.set_host_device_count(2)
    if double:
        numpyro.enable_x64()
    import jax
    import jax.numpy as jnp
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    design, answers = (jnp.asarray(part) for part in children())

    def model():
        beta = numpyro.sample("beta", dist.Normal(0.0, 10.0).expand([4]).to_event(1))
        omega = numpyro.sample("omega", dist.Normal(0.0, 10.0))
        with numpyro.plate("child", len(answers)):
            standard = numpyro.sample("standard", dist.Normal(0.0, 1.0))
            logits = design @ beta + (standard * jnp.exp(-omega))[:, None]
            numpyro.sample("y", dist.Bernoulli(logits=logits).to_event(1), obs=answers)

    warmup, draws = (100, 100) if quick else (1_500, 4_000)
    began = time.perf_counter()
    chains = MCMC(
        NUTS(model, target_accept_prob=accept),
        num_warmup=warmup, num_samples=draws, num_chains=2, chain_method=method, progress_bar=False,
    )
    chains.run(jax.random.PRNGKey(1))
    samples = {name: np.asarray(values) for name, values in chains.get_samples().items()}
    return time.perf_counter() - began, [*samples["beta"].mean(0).tolist(), float(samples["omega"].mean())]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--one", nargs=3, metavar=("METHOD", "ACCEPT", "PRECISION"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        method, accept, precision = options.one
        seconds, means = run(method, float(accept), precision == "f64", options.quick)
        print(json.dumps({"seconds": seconds, "means": means}))
        return
    times = {}
    for name, (accept, methods) in CASES.items():
        for precision in ("f32", "f64"):
            found = []
            for method in methods:
                command = [sys.executable, __file__, "--one", method, str(accept), precision]
                command += ["--quick"] if options.quick else []
                out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                found.append(json.loads(out))
                print(f"{name}_{precision} {method}: {found[-1]}", file=sys.stderr)
            times[f"{name}_{precision}"] = 1e6 * min(one["seconds"] for one in found)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
