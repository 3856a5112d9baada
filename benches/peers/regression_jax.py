"""Times one step of variational inference for multinomial regression on MNIST in JAX, for comparison with Partita.

    python regression_jax.py            prints one JSON object: microseconds a step for each case, and the final ELBO
    python regression_jax.py --quick    the same in a few seconds, to test that it runs

The step is that of `benches/regression.rs`: the first 10,000 training images as a dense matrix, W = sigma_W * U and b =
sigma_b * C with standard normal U and C, mean-field Gaussian q over the 7,850 numbers of (U, C), trained log sigma_W
and log sigma_b, one draw, sticking-the-landing gradients, Adam with cosine decay from 0.05. Everything, noise included,
is inside one `jax.jit(jax.lax.scan)`. Needs the folder PARTITA_DATA with `mnist/train-images-idx3-ubyte.gz` and the
labels.
"""

import argparse
import gzip
import json
import os
import pathlib

import jax
import jax.numpy as jnp
import numpy as np

import timing

ROWS, PIXELS, CLASSES = 10_000, 784, 10
RATE, STEPS = 0.05, 2_000


def images():
    """Pixels in [0, 1], [10000, 784], and labels, [10000]."""
    folder = pathlib.Path(os.environ.get("PARTITA_DATA", ".")) / "mnist"
    read = lambda name, skip: np.frombuffer(gzip.open(folder / name).read(), np.uint8, offset=skip)
    pixels = read("train-images-idx3-ubyte.gz", 16)[: ROWS * PIXELS].reshape(ROWS, PIXELS)
    return pixels / 255.0, read("train-labels-idx1-ubyte.gz", 8)[:ROWS].astype(np.int32)


def log_normal(standardised):
    return -0.5 * jnp.sum(standardised**2) - 0.5 * np.log(2 * np.pi) * standardised.size


def bound(parameters, noise, pixels, labels):
    """log p(y, U, C) - log q(U, C), the parameters held fixed inside log q."""
    mean, log_scale, log_sigma = parameters
    z = mean + jnp.exp(log_scale) * noise
    fixed_mean, fixed_log_scale = jax.lax.stop_gradient((mean, log_scale))
    log_q = log_normal((z - fixed_mean) * jnp.exp(-fixed_log_scale)) - jnp.sum(fixed_log_scale)
    weights = jnp.exp(log_sigma[0]) * z[: PIXELS * CLASSES].reshape(PIXELS, CLASSES)
    logits = pixels @ weights + jnp.exp(log_sigma[1]) * z[PIXELS * CLASSES :]
    chosen = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    likelihood = jnp.sum(chosen - jax.nn.logsumexp(logits, axis=1))
    return likelihood + log_normal(z) - log_q


def make_step(dtype, pixels, labels):
    """One step as (state, index) -> (state, ELBO estimate)."""
    pixels, labels = jnp.asarray(pixels, dtype), jnp.asarray(labels)
    length = PIXELS * CLASSES + CLASSES

    def step(state, index):
        parameters, first, second, key = state
        key, own = jax.random.split(key)
        noise = jax.random.normal(own, (length,), dtype)
        elbo, gradient = jax.value_and_grad(bound)(parameters, noise, pixels, labels)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
        time_ = (index + 1).astype(dtype)
        rate = RATE * 0.5 * (1 + jnp.cos(jnp.pi * index.astype(dtype) / STEPS))
        left = 1 - 0.9**time_, 1 - 0.999**time_
        move = lambda p, m, v: p + rate * (m / left[0]) / (jnp.sqrt(v / left[1]) + 1e-8)
        return (jax.tree.map(move, parameters, first, second), first, second, key), elbo

    zeros = lambda count: jnp.zeros(count, dtype)
    parameters = (zeros(length), zeros(length) + float(np.log(0.1)), zeros(2))
    nothing = lambda: jax.tree.map(jnp.zeros_like, parameters)
    return step, (parameters, nothing(), nothing(), jax.random.key(1))


def measure(dtype, blocks, steps, pixels, labels):
    """Median microseconds a step over `blocks` blocks of `steps` steps, compilation excluded."""
    step, state = make_step(dtype, pixels, labels)
    return timing.scanned(step, state, blocks, steps)


def final_elbo(steps, draws, pixels, labels):
    """The ELBO after `steps` steps in f32, averaged over `draws` fresh draws."""
    step, state = make_step(jnp.float32, pixels, labels)
    (parameters, *_), _ = jax.jit(lambda state: jax.lax.scan(step, state, jnp.arange(steps)))(state)
    noise = jax.random.normal(jax.random.key(2), (draws, PIXELS * CLASSES + CLASSES), jnp.float32)
    pixels, labels = jnp.asarray(pixels, jnp.float32), jnp.asarray(labels)
    return float(jnp.mean(jax.lax.map(lambda one: bound(parameters, one, pixels, labels), noise)))


def main():
    parser = argparse.ArgumentParser(description="Times the multinomial-regression step in JAX.")
    parser.add_argument("--quick", action="store_true", help="a few seconds, numbers that prove nothing")
    parser.add_argument("--random", default="threefry2x32", help="JAX's random number generator")
    options = parser.parse_args()
    jax.config.update("jax_default_prng_impl", options.random)
    blocks, steps = (3, 10) if options.quick else (20, 20)
    data = images()
    result = {}
    for precision in ("f32", "f64"):
        jax.config.update("jax_enable_x64", precision == "f64")
        dtype = jnp.float64 if precision == "f64" else jnp.float32
        result[f"pooled_k1_{precision}"] = round(measure(dtype, blocks, steps, *data), 2)
    result["elbo"] = round(final_elbo(20 if options.quick else STEPS, 20 if options.quick else 200, *data), 1)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
