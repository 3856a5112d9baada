#!/usr/bin/env python3
"""The step of benches/network_device.rs in JAX: mean-field VI of a 784-200-10 network, compiled as one function.

    python -m pip install "jax[cuda13]"
    python benches/peers/network_device_jax.py --batch 8192 --particles 32

Prints one line: `jax-bench network MILLISECONDS bound VALUE`, the median over blocks of steps. A block is one scan on the
device that ends with one read of the bound. JAX draws its noise on the device. Precision: float32; `--tf32` uses the
reduced precision of the tensor cores, which is JAX's own default.
"""
import statistics
import time

import jax
import jax.numpy as jnp

from network_device import INITIAL_SCALE, PRIOR_SCALE, WIDTHS, arguments

RATE = 1e-3


def main():
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--random", default="threefry2x32", help="JAX's random number generator")
    options = parser.parse_args()
    jax.config.update("jax_default_prng_impl", options.random)
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if options.tf32 else "float32")
    pixels, labels = jax.random.split(jax.random.key(1))
    images = jax.random.uniform(pixels, (options.rows, WIDTHS[0]))
    classes = jax.random.randint(labels, (options.rows,), 0, WIDTHS[-1])
    shapes = [shape for a, b in zip(WIDTHS, WIDTHS[1:]) for shape in ((a, b), (b,))]
    sizes = [a * b for a, b in zip(WIDTHS, WIDTHS[1:]) for a, b in ((a, b), (1, b))]
    count = sum(sizes)
    ends = [sum(sizes[: place + 1]) for place in range(len(sizes) - 1)]

    def bound(parameters, noise, x, y):
        mean, log_scale = parameters
        weights = mean + jnp.exp(log_scale) * noise
        parts = jnp.split(weights, ends, axis=1)
        w1, b1, w2, b2 = (part.reshape(-1, *shape) for part, shape in zip(parts, shapes))
        hidden = jax.nn.relu(x @ w1 + b1[:, None])
        logits = hidden @ w2 + b2[:, None]
        chosen = jnp.take_along_axis(jax.nn.log_softmax(logits, axis=2), y[None, :, None], axis=2)
        log_prior = -0.5 * jnp.square(weights / PRIOR_SCALE).sum(1)
        # Sticking the landing: log q at fixed parameters.
        fixed_mean, fixed_scale = jax.lax.stop_gradient(parameters)
        log_q = (-0.5 * jnp.square((weights - fixed_mean) / jnp.exp(fixed_scale)) - fixed_scale).sum(1)
        return (options.rows / x.shape[0] * chosen.sum((1, 2)) + log_prior - log_q).mean()

    def step(state, index):
        parameters, first, second, key = state
        key, order, own = jax.random.split(key, 3)
        rows = jax.random.randint(order, (options.batch,), 0, options.rows)
        noise = jax.random.normal(own, (options.particles, count))
        value, gradient = jax.value_and_grad(bound)(parameters, noise, images[rows], classes[rows])
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradient)
        left = 1 - 0.9 ** (index + 1.0), 1 - 0.999 ** (index + 1.0)
        move = lambda p, m, v: p + RATE * (m / left[0]) / (jnp.sqrt(v / left[1]) + 1e-8)
        return (jax.tree.map(move, parameters, first, second), first, second, key), value

    @jax.jit
    def block(state, start):
        state, values = jax.lax.scan(step, state, start + jnp.arange(options.steps))
        return state, values[-1]

    parameters = jnp.zeros(count), jnp.full(count, jnp.log(INITIAL_SCALE))
    nothing = jax.tree.map(jnp.zeros_like, parameters)
    state, value = block((parameters, nothing, nothing, jax.random.key(2)), jnp.asarray(0))
    value.item()
    milliseconds = []
    for own in range(options.blocks):
        start = time.perf_counter()
        state, value = block(state, jnp.asarray((own + 1) * options.steps))
        read = value.item()
        milliseconds.append(1e3 * (time.perf_counter() - start) / options.steps)
    device = jax.devices()[0].device_kind
    print(f"jax-bench network {statistics.median(milliseconds):.3f} bound {read:.1f} on {device}, jax {jax.__version__}")


if __name__ == "__main__":
    main()
