"""Times one step of augmented-variable inference over two groups of columns in JAX, for comparison with Partita.

    python vertical_jax.py            prints one JSON object: microseconds a step for each case, and the final ELBO
    python vertical_jax.py --quick    the same in a few seconds, to test that it runs

The step is that of `benches/vertical.rs` on pooled data: 100,000 rows, two groups of ten standard normal columns,
labels of a logistic model, z_j ~ N(x_j beta_j, rho^2) with rho = 1, beta and intercept standard normal; q(beta_j) a
full-covariance Gaussian a group, q(intercept) Gaussian, q(z_j | beta_j) = N(x_j beta_j, s^2) with log s by a network of
eight tanh units and a linear path, one draw, sticking-the-landing gradients, Adam with cosine decay from 0.02.
Everything, noise included, is inside one `jax.jit(jax.lax.scan)`.
"""

import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np

import timing

ROWS, EACH, PARTIES, HIDDEN = 100_000, 10, 2, 8
RATE, STEPS, RHO = 0.02, 2_000, 1.0


def data():
    """Columns by group, [2, 100000, 10], and labels, [100000]."""
    source = np.random.default_rng(1)
    beta = source.standard_normal((PARTIES, EACH))
    columns = source.standard_normal((PARTIES, ROWS, EACH))
    predictor = np.einsum("jnc,jc->n", columns, beta)
    return columns, (source.random(ROWS) < 1 / (1 + np.exp(-predictor))).astype(float)


def log_normal(standardised):
    return -0.5 * jnp.sum(standardised**2) - 0.5 * np.log(2 * np.pi) * standardised.size


def gaussian(mean, scale, noise):
    """A draw of N(mean, scale scale') and its log density, the parameters held fixed inside it."""
    draw = mean + scale @ noise
    fixed_mean, fixed_scale = jax.lax.stop_gradient((mean, scale))
    standardised = jax.scipy.linalg.solve_triangular(fixed_scale, draw - fixed_mean, lower=True)
    return draw, log_normal(standardised) - jnp.sum(jnp.log(jnp.diagonal(fixed_scale)))


def amortised(network, g):
    """Log scales of z given the contributions g; one unit after another, which XLA fuses best."""
    log_scale = network["a"] * g + network["b2"] + np.log(RHO)
    for unit in range(HIDDEN):
        log_scale += network["w2"][unit] * jnp.tanh(network["w1"][unit] * g + network["b1"][unit])
    return log_scale


def bound(parameters, noise, columns, labels):
    """log p(y, z, beta, b) - log q(z, beta, b) for one draw."""
    intercept, log_q = gaussian(parameters["head"]["mean"], jnp.exp(parameters["head"]["log_scale"])[:, None], noise["head"])
    total = log_normal(intercept) - log_q
    eta = intercept[0]
    for own, x, epsilon, tau in zip(parameters["parties"], columns, noise["beta"], noise["z"]):
        scale = jnp.tril(own["scale"], -1) + jnp.diag(jnp.exp(jnp.diagonal(own["scale"])))
        beta, log_q = gaussian(own["mean"], scale, epsilon)
        g = x @ beta
        log_scale = amortised(own["network"], g)
        z = g + jnp.exp(log_scale) * tau
        fixed_mean, fixed_log_scale = jax.lax.stop_gradient((g, log_scale))
        log_q_z = log_normal((z - fixed_mean) * jnp.exp(-fixed_log_scale)) - jnp.sum(fixed_log_scale)
        total += log_normal(beta) - log_q + log_normal((z - g) / RHO) - ROWS * np.log(RHO) - log_q_z
        eta = eta + z
    return total + jnp.sum(labels * eta - jax.nn.softplus(eta))


def make_step(dtype, columns, labels):
    """One step as (state, index) -> (state, ELBO estimate)."""
    columns, labels = [jnp.asarray(own, dtype) for own in columns], jnp.asarray(labels, dtype)

    def step(state, index):
        parameters, first, second, key = state
        key, head, beta, z = jax.random.split(key, 4)
        noise = {
            "head": jax.random.normal(head, (1,), dtype),
            "beta": jax.random.normal(beta, (PARTIES, EACH), dtype),
            "z": jax.random.normal(z, (PARTIES, ROWS), dtype),
        }
        elbo, gradient = jax.value_and_grad(bound)(parameters, noise, columns, labels)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
        time_ = (index + 1).astype(dtype)
        rate = RATE * 0.5 * (1 + jnp.cos(jnp.pi * index.astype(dtype) / STEPS))
        left = 1 - 0.9**time_, 1 - 0.999**time_
        move = lambda p, m, v: p + rate * (m / left[0]) / (jnp.sqrt(v / left[1]) + 1e-8)
        return (jax.tree.map(move, parameters, first, second), first, second, key), elbo

    keys = jax.random.split(jax.random.key(2), PARTIES * 2)
    party = lambda index: {
        "mean": jnp.zeros(EACH, dtype),
        "scale": jnp.eye(EACH, dtype=dtype) * float(np.log(0.1)),
        "network": {
            "w1": jax.random.normal(keys[2 * index], (HIDDEN,), dtype),
            "b1": jax.random.normal(keys[2 * index + 1], (HIDDEN,), dtype),
            "w2": jnp.zeros(HIDDEN, dtype),
            "a": jnp.zeros((), dtype),
            "b2": jnp.zeros((), dtype),
        },
    }
    head = {"mean": jnp.zeros(1, dtype), "log_scale": jnp.full(1, float(np.log(0.1)), dtype)}
    parameters = {"head": head, "parties": [party(index) for index in range(PARTIES)]}
    nothing = lambda: jax.tree.map(jnp.zeros_like, parameters)
    return step, (parameters, nothing(), nothing(), jax.random.key(1))


def measure(dtype, blocks, steps, columns, labels):
    """Median microseconds a step over `blocks` blocks of `steps` steps, compilation excluded."""
    step, state = make_step(dtype, columns, labels)
    return timing.scanned(step, state, blocks, steps)


def final_elbo(steps, columns, labels):
    """The mean of the ELBO's estimates over the last tenth of `steps` steps in f32."""
    step, state = make_step(jnp.float32, columns, labels)
    _, elbos = jax.jit(lambda state: jax.lax.scan(step, state, jnp.arange(steps)))(state)
    return float(jnp.mean(elbos[-max(steps // 10, 1) :]))


def main():
    parser = argparse.ArgumentParser(description="Times the augmented-variable step in JAX.")
    parser.add_argument("--quick", action="store_true", help="a few seconds, numbers that prove nothing")
    parser.add_argument("--random", default="threefry2x32", help="JAX's random number generator")
    options = parser.parse_args()
    jax.config.update("jax_default_prng_impl", options.random)
    blocks, steps = (3, 5) if options.quick else (20, 20)
    columns, labels = data()
    result = {}
    for precision in ("f32", "f64"):
        jax.config.update("jax_enable_x64", precision == "f64")
        dtype = jnp.float64 if precision == "f64" else jnp.float32
        result[f"augmented_two_threads_{precision}"] = round(measure(dtype, blocks, steps, columns, labels), 2)
    jax.config.update("jax_enable_x64", False)
    result["elbo"] = round(final_elbo(20 if options.quick else STEPS, columns, labels), 1)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
