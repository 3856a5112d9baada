"""Times one step of structured variational inference on the six-cities model in JAX, for comparison with Partita.

    python six_cities_jax.py            prints one JSON object: microseconds a step for each case, and the final ELBO
    python six_cities_jax.py --quick    the same in a few seconds, to test that it runs

The step is that of `benches/limit/step.rs` and of Partita's own benchmark: 537 children at four ages, a logistic model
with a random intercept u_i * exp(-omega), full-rank Gaussian q(Z_G), a Gaussian q(u_i | Z_G) whose mean and log-scale
are linear in Z_G, sticking-the-landing gradients, Adam with cosine decay from 0.02. Everything, noise included, is
inside one `jax.jit(jax.lax.scan)`. What you should see: an ELBO within 0.3 of -827.05 (shared reference for this
family).
"""

import argparse
import functools
import json

import jax
import jax.numpy as jnp
import numpy as np

import timing

# Children by response pattern at the ages 7, 8, 9, 10 (0000, 0001, ..., 1111): Fitzmaurice and Laird (1993).
NON_SMOKING = [237, 10, 15, 4, 16, 2, 7, 3, 24, 3, 3, 2, 6, 2, 5, 11]
SMOKING = [118, 6, 8, 2, 11, 1, 6, 4, 7, 3, 3, 1, 4, 2, 4, 7]
AGES = np.array([-2.0, -1.0, 0.0, 1.0])
SILOS = (300, 237)
PRIOR_SCALE = 10.0
RATE, STEPS = 0.02, 20_000


def children():
    """Design [537, 4 ages, 4 coefficients] and responses [537, 4], shuffled once so that silos are alike."""
    rows = [
        (smoke, [pattern >> 3 & 1, pattern >> 2 & 1, pattern >> 1 & 1, pattern & 1])
        for smoke, counts in ((0.0, NON_SMOKING), (1.0, SMOKING))
        for pattern, count in enumerate(counts)
        for _ in range(count)
    ]
    design = np.array([[[1.0, smoke, age, smoke * age] for age in AGES] for smoke, _ in rows])
    order = np.random.default_rng(7).permutation(len(rows))
    return design[order], np.array([answers for _, answers in rows], dtype=float)[order]


def initial(count, dtype):
    """Variational parameters: those of q(Z_G), and those of q(u | Z_G) for `count` children."""
    zeros = functools.partial(jnp.zeros, dtype=dtype)
    globals_ = {"mean": zeros(5), "below": zeros((5, 5)), "log_diagonal": zeros(5) - 2.0}
    locals_ = {"mean": zeros(count), "slope": zeros((count, 5)), "log_scale": zeros(count), "tilt": zeros((count, 5))}
    return globals_, locals_


def scale_tril(globals_):
    return jnp.tril(globals_["below"], -1) + jnp.diag(jnp.exp(globals_["log_diagonal"]))


def log_normal(standardised):
    return -0.5 * jnp.sum(standardised**2) - 0.5 * np.log(2 * np.pi) * standardised.size


def global_term(globals_, noise):
    """log p(Z_G) - log q(Z_G), the parameters held fixed inside log q."""
    z = globals_["mean"] + scale_tril(globals_) @ noise
    fixed = jax.lax.stop_gradient(globals_)
    back = jax.scipy.linalg.solve_triangular(scale_tril(fixed), z - fixed["mean"], lower=True)
    log_q = log_normal(back) - jnp.sum(fixed["log_diagonal"])
    return log_normal(z / PRIOR_SCALE) - 5 * np.log(PRIOR_SCALE) - log_q


def silo_term(globals_, locals_, noise, own_noise, design, answers):
    """log p(y, u | Z_G) - log q(u | Z_G) of one silo, the parameters held fixed inside log q."""

    def conditional(globals_, locals_, z):
        away = z - globals_["mean"]
        return locals_["mean"] + locals_["slope"] @ away, locals_["log_scale"] + locals_["tilt"] @ away

    z = globals_["mean"] + scale_tril(globals_) @ noise
    mean, log_scale = conditional(globals_, locals_, z)
    u = mean + jnp.exp(log_scale) * own_noise
    fixed_mean, fixed_log_scale = conditional(*jax.lax.stop_gradient((globals_, locals_)), z)
    log_q = log_normal((u - fixed_mean) * jnp.exp(-fixed_log_scale)) - jnp.sum(fixed_log_scale)
    logits = design @ z[:4] + (u * jnp.exp(-z[4]))[:, None]
    likelihood = jnp.sum(answers * logits - jax.nn.softplus(logits))
    return likelihood + log_normal(u) - log_q


def make_step(particles, silos, dtype, design, answers):
    """One step as (state, index) -> (state, ELBO estimate): silo by silo, gradients of the globals added up."""
    edges = np.cumsum((0, *silos))
    shards = [(jnp.asarray(design[a:b], dtype), jnp.asarray(answers[a:b], dtype)) for a, b in zip(edges, edges[1:])]

    def mean_over_particles(term):
        def averaged(parameters, *noises):
            return jnp.mean(jax.vmap(lambda *one: term(*parameters, *one))(*noises))

        return jax.value_and_grad(averaged)

    def step(state, index):
        parameters, first, second, key = state
        globals_, locals_ = parameters
        key, *keys = jax.random.split(key, 2 + len(silos))
        noise = jax.random.normal(keys[0], (particles, 5), dtype)
        elbo, (gradient,) = mean_over_particles(global_term)((globals_,), noise)
        own_gradients = []
        for own, own_key, shard, count in zip(locals_, keys[1:], shards, silos):
            own_noise = jax.random.normal(own_key, (particles, count), dtype)
            term = lambda g, l, e, o, shard=shard: silo_term(g, l, e, o, *shard)
            value, (share, own_gradient) = mean_over_particles(term)((globals_, own), noise, own_noise)
            elbo = elbo + value
            gradient = jax.tree.map(jnp.add, gradient, share)
            own_gradients.append(own_gradient)
        gradients = (gradient, own_gradients)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
        time_ = (index + 1).astype(dtype)
        rate = RATE * 0.5 * (1 + jnp.cos(jnp.pi * index.astype(dtype) / STEPS))
        left = 1 - 0.9**time_, 1 - 0.999**time_
        move = lambda p, m, v: p + rate * (m / left[0]) / (jnp.sqrt(v / left[1]) + 1e-8)
        return (jax.tree.map(move, parameters, first, second), first, second, key), elbo

    globals_ = initial(1, dtype)[0]
    parameters = (globals_, [initial(count, dtype)[1] for count in silos])
    nothing = lambda: jax.tree.map(jnp.zeros_like, parameters)
    return step, (parameters, nothing(), nothing(), jax.random.key(1))


def measure(particles, silos, dtype, blocks, steps):
    """Median microseconds a step over `blocks` blocks of `steps` steps, compilation excluded."""
    step, state = make_step(particles, silos, dtype, *children())
    return timing.scanned(step, state, blocks, steps)


def final_elbo(steps, draws):
    """The ELBO after `steps` pooled steps with one particle in f64, averaged over `draws` fresh draws."""
    design, answers = children()
    step, state = make_step(1, (len(answers),), jnp.float64, design, answers)
    (parameters, *rest), _ = jax.jit(lambda state: jax.lax.scan(step, state, jnp.arange(steps)))(state)
    globals_, (locals_,) = parameters
    keys = jax.random.split(jax.random.key(2))
    noise = jax.random.normal(keys[0], (draws, 5), jnp.float64)
    own = jax.random.normal(keys[1], (draws, len(answers)), jnp.float64)
    total = lambda e, o: global_term(globals_, e) + silo_term(globals_, locals_, e, o, design, answers)
    return float(jnp.mean(jax.lax.map(lambda pair: total(*pair), (noise, own))))


def main():
    parser = argparse.ArgumentParser(description="Times the six-cities step in JAX.")
    parser.add_argument("--quick", action="store_true", help="a few seconds, numbers that prove nothing")
    parser.add_argument("--random", default="threefry2x32", help="JAX's random number generator")
    options = parser.parse_args()
    jax.config.update("jax_default_prng_impl", options.random)
    blocks, steps = (2, 20) if options.quick else (40, 200)
    cases = {"pooled_k1": (1, (sum(SILOS),)), "pooled_k10": (10, (sum(SILOS),)), "two_silos_k1": (1, SILOS)}
    result = {}
    for precision in ("f32", "f64"):
        jax.config.update("jax_enable_x64", precision == "f64")
        dtype = jnp.float64 if precision == "f64" else jnp.float32
        for name, (particles, silos) in cases.items():
            result[f"{name}_{precision}"] = round(measure(particles, silos, dtype, blocks, steps), 2)
    result["elbo"] = round(final_elbo(200 if options.quick else STEPS, 200 if options.quick else 4000), 3)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
