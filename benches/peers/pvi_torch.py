#!/usr/bin/env python3
"""Times the rounds of benches/pvi.rs in PyTorch, as the authors of the PVI paper fit: vectorised draws, Adam, eager.

    python -m pip install torch==2.15.0 numpy==2.4.6
    python pvi_torch.py --case adult        one JSON object: microseconds a round, and the bound after one
    python pvi_torch.py --case network      the same for one epoch of a silo
    python pvi_torch.py --case adult --quick    one round instead of eight, to test that it runs

Written from the equations: silo m removes its factor, eta_cavity = eta_q - eta_m, maximises E_q[log p(y_m | theta)] -
KL(q | cavity) over a mean-field normal q by reparameterised gradients, and its factor becomes eta_m + (eta_new -
eta_q). Ten draws, the divergence in closed form (up to a constant, since a cavity need not be proper). adult: ten silos
of 3,907 rows one after the other, 100 steps of Adam (1e-2) on 128 rows each. network: 784-200-10, 6,000 digits, 12
steps of Adam (2e-3) on 512 rows, local reparameterisation with fresh noise for every row and draw; the moments of the
first layer, whose inputs are the same in all draws, are computed once for all of them. Needs the folder PARTITA_DATA
with `uci/adult.data.gz`, `uci/adult.test.gz` and `mnist/train-*-ubyte.gz`.

References: Ashman et al. (2022), Partitioned variational inference, Algorithm 1; Kingma, Salimans and Welling (2015).
"""

import argparse
import csv
import gzip
import json
import os
import pathlib
import statistics
import time

import numpy as np
import torch

DRAWS = 10
SILOS, ADULT_ROWS, ADULT_BATCH, ADULT_STEPS, ADULT_RATE = 10, 3_907, 128, 100, 1e-2
DIGITS, DIGITS_BATCH, DIGITS_RATE, DIGITS_SCALE, WIDTHS = 6_000, 512, 2e-3, 0.03, (784, 200, 10)
NUMERIC = (0, 2, 4, 10, 11, 12)


def folder(name):
    return pathlib.Path(os.environ.get("PARTITA_DATA", ".")) / name


def adult():
    """Covariates with a one for the intercept, [39070, 1 + columns], and labels, [39070]."""
    rows = []
    for name in ("adult.data.gz", "adult.test.gz"):
        with gzip.open(folder("uci") / name, "rt") as lines:
            rows += [[cell.strip() for cell in row] for row in csv.reader(lines) if len(row) == 15]
    columns = [np.ones((len(rows), 1))]
    for index in range(14):
        cells = [row[index] for row in rows]
        if index in NUMERIC:
            numbers = np.array(cells, float)
            own = numbers[:ADULT_ROWS]
            columns.append(((numbers - own.mean()) / own.std())[:, None])
        else:
            categories, which = np.unique(cells, return_inverse=True)
            columns.append(np.eye(len(categories))[which])
    labels = np.array([row[14].startswith(">50K") for row in rows], float)
    count = SILOS * ADULT_ROWS
    return np.hstack(columns)[:count], labels[:count]


def digits():
    """Pixels in [0, 1], [6000, 784], and labels, [6000]."""
    read = lambda name, skip: np.frombuffer(gzip.open(folder("mnist") / name).read(), np.uint8, offset=skip)
    pixels = read("train-images-idx3-ubyte.gz", 16)[: DIGITS * WIDTHS[0]].reshape(DIGITS, WIDTHS[0])
    return pixels / 255.0, read("train-labels-idx1-ubyte.gz", 8)[:DIGITS].astype(np.int64)


def divergence(mean, log_sd, cavity):
    """KL(q | cavity) less the cavity's constant; `cavity` is (precision times mean, precision)."""
    second = mean.square() + (2 * log_sd).exp()
    return (0.5 * cavity[1] * second - cavity[0] * mean - log_sd).sum()


def natural(mean, log_sd):
    precision = (-2 * log_sd).exp()
    return torch.stack((precision * mean, precision)).detach()


def bound(found, mean, log_sd):
    """The silos' expected log likelihoods less KL(q | N(0, 1)), in nats."""
    prior = torch.stack((torch.zeros_like(mean), torch.ones_like(mean)))
    return float(found - divergence(mean, log_sd, prior) + 0.5 * len(mean))


def minibatches(rows, batch):
    """Indices without end, without replacement in an epoch; its last minibatch may be smaller."""
    while True:
        yield from torch.randperm(rows).split(batch)


def visit(start, cavity, steps, rate, expected_log_likelihood, batches):
    """q after `steps` steps, and the mean expected log likelihood of the last tenth of them."""
    mean, log_sd = (part.clone().requires_grad_() for part in start)
    optimiser = torch.optim.Adam((mean, log_sd), lr=rate)
    last = []
    for step in range(steps):
        optimiser.zero_grad(set_to_none=True)
        likelihood = expected_log_likelihood(mean, log_sd, next(batches))
        (divergence(mean, log_sd, cavity) - likelihood).backward()
        optimiser.step()
        if step >= steps - -(-steps // 10):
            last.append(likelihood.detach())
    return (mean.detach(), log_sd.detach()), torch.stack(last).mean()


class Adult:
    """Ten silos with their factors; `round` updates each once."""

    def __init__(self, dtype):
        inputs, labels = (torch.tensor(part, dtype=dtype) for part in adult())
        self.silos = list(zip(inputs.split(ADULT_ROWS), labels.split(ADULT_ROWS)))
        self.batches = [minibatches(ADULT_ROWS, ADULT_BATCH) for _ in self.silos]
        zeros = torch.zeros(inputs.shape[1], dtype=dtype)
        self.q = (zeros, zeros.clone())
        self.factors = [torch.zeros(2, len(zeros), dtype=dtype) for _ in self.silos]
        self.found = [torch.zeros(()) for _ in self.silos]

    def round(self):
        for index, (inputs, labels) in enumerate(self.silos):
            scale = len(labels)

            def expected(mean, log_sd, rows):
                noise = torch.randn(DRAWS, len(mean), dtype=mean.dtype)
                weights = mean + log_sd.exp() * noise
                logits = inputs[rows] @ weights.T
                observed = labels[rows][:, None]
                log_likelihood = observed * logits - torch.nn.functional.softplus(logits)
                return scale / len(rows) / DRAWS * log_likelihood.sum()

            before = natural(*self.q)
            cavity = before - self.factors[index]
            self.q, self.found[index] = visit(
                self.q, cavity, ADULT_STEPS, ADULT_RATE, expected, self.batches[index]
            )
            self.factors[index] += natural(*self.q) - before
        return bound(sum(self.found), *self.q)


class Network:
    """One silo; `round` is an epoch with the prior, the product of all other factors being 1, as cavity."""

    def __init__(self, dtype):
        inputs, labels = digits()
        self.inputs, self.labels = torch.tensor(inputs, dtype=dtype), torch.tensor(labels)
        self.batches = minibatches(DIGITS, DIGITS_BATCH)
        self.shapes = [shape for pair in zip(WIDTHS, WIDTHS[1:]) for shape in (pair, pair[1:])]
        self.sizes = [torch.Size(shape).numel() for shape in self.shapes]
        means = [
            torch.randn(shape, dtype=dtype).mul_((2 / shape[0]) ** 0.5) if len(shape) == 2 else torch.zeros(shape, dtype=dtype)
            for shape in self.shapes
        ]
        mean = torch.cat([part.flatten() for part in means])
        self.q = (mean, torch.full_like(mean, DIGITS_SCALE).log())
        self.prior = torch.stack((torch.zeros_like(mean), torch.ones_like(mean)))

    def parts(self, values):
        return [part.view(shape) for part, shape in zip(values.split(self.sizes), self.shapes)]

    def expected(self, mean, log_sd, rows):
        means, variances = self.parts(mean), self.parts((2 * log_sd).exp())
        layer = self.inputs[rows]
        for index in range(0, len(self.shapes), 2):
            location = layer @ means[index] + means[index + 1]
            variance = layer.square() @ variances[index] + variances[index + 1]
            noise = torch.randn(DRAWS, *location.shape[-2:], dtype=mean.dtype)
            layer = location + variance.clamp_min(1e-12).sqrt() * noise
            if index + 2 < len(self.shapes):
                layer = layer.relu()
        logits = layer.flatten(0, 1)
        observed = self.labels[rows].repeat(DRAWS)
        log_likelihood = -torch.nn.functional.cross_entropy(logits, observed, reduction="sum")
        return DIGITS / len(rows) / DRAWS * log_likelihood

    def round(self):
        # Every local update removes the factor from q = prior times factor: the cavity is the prior.
        steps = -(-DIGITS // DIGITS_BATCH)
        self.q, found = visit(self.q, self.prior, steps, DIGITS_RATE, self.expected, self.batches)
        return bound(found, *self.q)


def main():
    parser = argparse.ArgumentParser(description="Times rounds of partitioned variational inference in PyTorch.")
    parser.add_argument("--case", choices=("adult", "network"), required=True)
    parser.add_argument("--quick", action="store_true", help="one round, a number that proves nothing")
    parser.add_argument("--threads", type=int, help="threads of PyTorch, which otherwise chooses")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    name = {"adult": "adult_sequential", "network": "network_epoch"}[options.case]
    make = {"adult": Adult, "network": Network}[options.case]
    result = {}
    for precision, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        torch.manual_seed(1)
        case = make(dtype)
        result.setdefault("bound", round(case.round(), 1))
        times = []
        for _ in range(1 if options.quick else 7):
            begin = time.perf_counter()
            case.round()
            times.append((time.perf_counter() - begin) * 1e6)
        result[f"{name}_{precision}"] = round(statistics.median(times), 1)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
