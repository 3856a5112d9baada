"""Makes `multinomial_regression.json`: a small multinomial regression, its log densities and their gradients.

    python multinomial_regression.py > multinomial_regression.json

JAX 0.10.2 in double precision: good to some 1e-15 of sums of size ten.
"""

import json

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

X = [[0, 0.25, 0, 1], [0.5, 0, 0, 0.75], [0, 0, 0, 0], [0.125, 1, 0.5, 0], [0, 0, 0.875, 0.25]]
CLASSES = [2, 0, 1, 1, 2]
LATENTS = [0.3, -1.1, 0.4, 0.9, 0.2, -0.6, -0.8, 1.3, 0.1, 0.5, -0.4, 0.7, -0.2, 0.6, 1.0]
THETA = [-0.7, 0.4]
COLUMNS, COUNT = 4, 3


def densities(latents, theta, centred):
    """log p(W, b) of the latents, and log p(y | W, b)."""
    scales = jnp.concatenate([jnp.full(COLUMNS * COUNT, jnp.exp(theta[0])), jnp.full(COUNT, jnp.exp(theta[1]))])
    prior = jnp.sum(jax.scipy.stats.norm.logpdf(latents, 0.0, scales if centred else 1.0))
    natural = latents if centred else latents * scales
    logits = jnp.array(X) @ natural[: COLUMNS * COUNT].reshape(COLUMNS, COUNT) + natural[COLUMNS * COUNT :]
    chosen = logits[jnp.arange(len(CLASSES)), jnp.array(CLASSES)]
    return prior, jnp.sum(chosen - jax.nn.logsumexp(logits, axis=1))


def main():
    point = jnp.array(LATENTS), jnp.array(THETA)
    result = {"x": X, "classes": CLASSES, "latents": LATENTS, "theta": THETA}
    for name, centred in (("centred", True), ("non_centred", False)):
        prior, likelihood = densities(*point, centred)
        slopes = jax.grad(lambda latents, theta: sum(densities(latents, theta, centred)), (0, 1))(*point)
        result[name] = {
            "prior": float(prior),
            "likelihood": float(likelihood),
            "joint_by_latents": slopes[0].tolist(),
            "joint_by_theta": slopes[1].tolist(),
        }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
