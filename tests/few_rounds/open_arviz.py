"""Opens files for ArviZ with ArviZ itself, and prints what it makes of them as JSON.

Run by tests/few_rounds/arviz.rs with the Python that PARTITA_ARVIZ names, which has what this installs:

    python3.12 -m venv arviz && arviz/bin/pip install "arviz[matplotlib,zarr]==1.3.0"

Arguments: files written by `write_arviz`. What it draws goes into a folder that is removed.
"""

import json
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import arviz as az
import numpy as np
from arviz_stats.base import array_stats
from scipy.stats import norm

SAMPLES = ["chain", "draw"]


def elpd(found):
    return [float(found.elpd), float(found.se), float(found.p)]


def described(path):
    tree = az.from_zarr(path, consolidated=False)
    own = {"attributes": dict(tree.attrs), "groups": {}, "labels": {}}
    for node in tree.subtree:
        own["groups"][node.path] = {
            name: {"dims": list(array.dims), "shape": list(array.shape), "type": array.dtype.kind}
            for name, array in node.variables.items()
        }
        for name, coord in node.coords.items():
            if coord.dtype.kind in "OUT":
                own["labels"][f"{node.path}/{name}"] = sorted({str(label) for label in coord.values}, key=list(coord.values).index)
    summary = az.summary(tree, round_to="none")
    own["summary"] = {label: [float(row["mean"]), float(row["sd"])] for label, row in summary.iterrows()}
    own["prior"] = {name: [float(array.mean()), float(array.std())] for name, array in tree["prior"].data_vars.items()}
    with tempfile.TemporaryDirectory() as folder:
        for name, plot in [("forest", az.plot_forest), ("rank", az.plot_rank)]:
            picture = Path(folder) / f"{name}.png"
            plot(tree, backend="matplotlib").savefig(picture)
            own[name] = picture.stat().st_size
    if "log_likelihood" in tree.children:
        names = list(tree["log_likelihood"].data_vars)
        own["loo"] = {name: elpd(az.loo(tree, var_name=name)) for name in names}
        own["observed"] = {name: float(array.sum()) for name, array in tree["observed_data"].data_vars.items()}
        own["predictive"] = {
            name: [float(array.sum(array.dims[2:]).mean()), float(array.sum(array.dims[2:]).std())]
            for name, array in tree["posterior_predictive"].data_vars.items()
        }
    if "round_of_trust" in tree.children:
        trust = tree["round_of_trust"]
        stats = trust["sample_stats"]
        ratios = stats["log_p"] - stats["log_q"]
        # ArviZ has no weight for a draw whose density is zero: one that underflows stands for it.
        ratios = ratios.where(np.isfinite(ratios), -1e6)
        # As leaving out wants it, its argument is the negative of the logarithm of weights.
        _, k = (-ratios).azstats.psislw(dim=SAMPLES)
        own["infinite"] = int((ratios == -1e6).sum())
        own["pareto_k"] = float(k)
        # ArviZ rounds the length of the tail down; Vehtari et al. (2024), the R package loo and Partita round it up.
        count = ratios.size
        tail = int(np.ceil(min(0.2 * count, 3 * count**0.5)))
        _, k = array_stats._ps_tail(ratios.values.ravel(), count, tail, smooth_draws=True, tail="right", log_weights=True)
        own["pareto_k_of_tail"] = float(k)
        if "log_likelihood" in trust.children:
            own["loo_approximate"] = {
                name: elpd(az.loo_approximate_posterior(trust, stats["log_p"], stats["log_q"], var_name=name))
                for name in names
            }
            # Every global of six cities has the prior N(0, 10²), whose numbers are unconstrained.
            log_p = sum(norm(0, 10).logpdf(array).sum(axis=tuple(range(2, array.ndim))) for array in trust["posterior"].data_vars.values())
            log_p = log_p + sum(array.sum(array.dims[2:]).values for array in trust["log_likelihood"].data_vars.values())
            # Weighed as draws count: quadrature is held to 0.01 nats at the posterior alone, and is off by nats far from it.
            written = stats["log_p"].values
            # Far draws may have no density, which both then say.
            none = np.isneginf(log_p) & np.isneginf(written)
            apart = np.where(none, 0.0, np.abs(np.where(none, 0.0, log_p) - np.where(none, 0.0, written)))
            weights = np.exp((ratios - ratios.max()).values)
            own["apart"] = float((weights * apart).sum() / weights.sum())
            own["apart_anywhere"] = float(apart.max())
    return own


if __name__ == "__main__":
    text = json.dumps({path: described(path) for path in sys.argv[1:]})
    # JSON has no word for what is no number.
    for word in ["NaN", "-Infinity", "Infinity"]:
        text = text.replace(word, "null")
    print(text)
