"""Times one step of mean-field variational inference for a 784-200-10 network in JAX, for comparison with Partita.

    python network_jax.py            prints one JSON object: microseconds a step for each case
    python network_jax.py --quick    the same in a few seconds, to test that it runs

The step is that of `benches/network.rs`: 256 of 10,000 rows of 784 uniform features, ten classes, rectified units, the
prior N(0, 0.3^2), a diagonal Gaussian q over the 159,010 weights, one draw of shared noise, Adam at a constant rate.
Minibatch, noise and update are inside `jax.jit`, data and parameters on the device; a scan over steps and a loop over
calls are both timed and the faster is printed. Cases: `network_k1` takes the entropy in closed form,
`network_k1_sticking` sticks the landing, `network_k1_local` draws pre-activations, `network_k1_one_thread` is the first
with one thread. Single precision only, as in Partita's benchmark.
"""

import argparse
import functools
import json
import os
import subprocess
import sys

if "--one-thread" in sys.argv:
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax
import jax.numpy as jnp
import numpy as np

import timing

WIDTHS, ROWS, BATCH = (784, 200, 10), 10_000, 256
PRIOR, INITIAL, RATE = 0.3, 0.02, 1e-3
LAYERS = list(zip(WIDTHS[:-1], WIDTHS[1:]))
HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


def draw(parameters, key):
    mean, log_scale = parameters
    keys = jax.random.split(key, len(mean))
    noise = [jax.random.normal(own, m.shape, m.dtype) for own, m in zip(keys, mean)]
    return [m + jnp.exp(r) * e for m, r, e in zip(mean, log_scale, noise)]


def log_prior(weights):
    return sum(jnp.sum(-0.5 * (w / PRIOR) ** 2 - np.log(PRIOR) - HALF_LOG_TWO_PI) for w in weights)


def log_likelihood(logits, labels):
    chosen = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return ROWS / BATCH * jnp.sum(chosen - jax.nn.logsumexp(logits, axis=1))


def forward(weights, rows):
    hidden = jax.nn.relu(rows @ weights[0] + weights[1])
    return hidden @ weights[2] + weights[3]


def entropy(log_scale):
    return sum(jnp.sum(r + 0.5 + HALF_LOG_TWO_PI) for r in log_scale)


def ordinary(parameters, key, rows, labels):
    weights = draw(parameters, key)
    return log_likelihood(forward(weights, rows), labels) + log_prior(weights) + entropy(parameters[1])


def sticking(parameters, key, rows, labels):
    weights = draw(parameters, key)
    mean, log_scale = jax.lax.stop_gradient(parameters)
    log_q = sum(
        jnp.sum(-0.5 * ((w - m) * jnp.exp(-r)) ** 2 - r - HALF_LOG_TWO_PI) for w, m, r in zip(weights, mean, log_scale)
    )
    return log_likelihood(forward(weights, rows), labels) + log_prior(weights) - log_q


def local(parameters, key, rows, labels):
    mean, log_scale = parameters
    own, *keys = jax.random.split(key, 3)
    variance = [jnp.exp(2 * r) for r in log_scale]
    for layer, layer_key in enumerate(keys):
        centre = rows @ mean[2 * layer] + mean[2 * layer + 1]
        spread = jnp.sqrt((rows * rows) @ variance[2 * layer] + variance[2 * layer + 1])
        rows = centre + spread * jax.random.normal(layer_key, centre.shape, centre.dtype)
        rows = jax.nn.relu(rows) if layer == 0 else rows
    return log_likelihood(rows, labels) + log_prior(draw(parameters, own)) + entropy(log_scale)


def make_step(bound, features, labels):
    """One step as (state, index) -> (state, ELBO estimate)."""

    def step(state, index):
        parameters, first, second, key = state
        key, own, order = jax.random.split(key, 3)
        chosen = jax.random.randint(order, (BATCH,), 0, ROWS)
        elbo, gradient = jax.value_and_grad(bound)(parameters, own, features[chosen], labels[chosen])
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
        time_ = (index + 1).astype(jnp.float32)
        left = 1 - 0.9**time_, 1 - 0.999**time_
        move = lambda p, m, v: p + RATE * (m / left[0]) / (jnp.sqrt(v / left[1]) + 1e-8)
        return (jax.tree.map(move, parameters, first, second), first, second, key), elbo

    rng = np.random.default_rng(1)
    weights = [[rng.normal(0, np.sqrt(2 / inputs), (inputs, outputs)), np.zeros(outputs)] for inputs, outputs in LAYERS]
    mean = [jnp.asarray(w, jnp.float32) for layer in weights for w in layer]
    parameters = mean, [jnp.full_like(m, np.log(INITIAL)) for m in mean]
    nothing = lambda: jax.tree.map(jnp.zeros_like, parameters)
    return step, (parameters, nothing(), nothing(), jax.random.key(1))


def measure(bound, blocks, steps, features, labels):
    """The faster of a scan over steps and of a loop over calls."""
    step, state = make_step(bound, features, labels)
    one = jax.jit(lambda state, index: step(state, index)[0], donate_argnums=0)

    def loop(state, start):
        for index in range(start, start + steps):
            state = one(state, jnp.asarray(index))
        return state

    scanned = timing.scanned(step, state, blocks, steps)
    _, state = make_step(bound, features, labels)
    return min(scanned, timing.blocks_of(loop, state, blocks, steps))


def main():
    parser = argparse.ArgumentParser(description="Times the step of a 784-200-10 Bayesian network in JAX.")
    parser.add_argument("--quick", action="store_true", help="a few seconds, numbers that prove nothing")
    parser.add_argument("--one-thread", action="store_true", help="only the first case, with one thread")
    parser.add_argument("--random", default="threefry2x32", help="JAX's random number generator")
    options = parser.parse_args()
    jax.config.update("jax_default_prng_impl", options.random)
    blocks, steps = (3, 5) if options.quick else (15, 20)
    rng = np.random.default_rng(7)
    features = jnp.asarray(rng.random((ROWS, WIDTHS[0])), jnp.float32)
    labels = jnp.asarray(np.arange(ROWS) % WIDTHS[-1])
    timed = functools.partial(measure, blocks=blocks, steps=steps, features=features, labels=labels)
    if options.one_thread:
        print(json.dumps({"network_k1_one_thread_f32": round(timed(ordinary), 1)}))
        return
    cases = {"network_k1": ordinary, "network_k1_sticking": sticking, "network_k1_local": local}
    result = {f"{name}_f32": round(timed(bound), 1) for name, bound in cases.items()}
    alone = [sys.executable, __file__, "--one-thread", "--random", options.random] + ["--quick"] * options.quick
    result.update(json.loads(subprocess.run(alone, check=True, capture_output=True, text=True).stdout))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
