"""Times a step of a compiled JAX scan, the same way for every peer."""

import statistics
import time

import jax
import jax.numpy as jnp


def scanned(step, state, blocks, steps):
    """Median microseconds a step over `blocks` blocks of `steps` steps, compilation excluded."""
    run = jax.jit(lambda state, start: jax.lax.scan(step, state, start + jnp.arange(steps))[0], donate_argnums=0)
    return blocks_of(run, state, blocks, steps)


def blocks_of(run, state, blocks, steps):
    """Median microseconds a step of `run(state, first step)`, which takes `steps` steps.

    Its first call, which compiles, is not timed.
    """
    state = jax.block_until_ready(run(state, 0))
    times = []
    for block in range(1, blocks + 1):
        begin = time.perf_counter()
        state = jax.block_until_ready(run(state, block * steps))
        times.append((time.perf_counter() - begin) / steps * 1e6)
    return statistics.median(times)
