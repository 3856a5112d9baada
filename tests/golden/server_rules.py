"""Golden trajectories of FedAdagrad, FedAdam and FedYogi over three silos with different straight lines.

    python tests/golden/server_rules.py > tests/golden/server_rules.json

Needs no package: decimal numbers of 60 digits. Silo m has rows (x, y) of y ~ N(a + b x, 1), so that its mean loss is a
quadratic with H_m = mean of (1, x)(1, x)' and F_m' = H_m w - mean of y (1, x). A round: E gradient steps of rate r in
every silo, then the rule of Reddi et al. (2021, arXiv:2003.00295, Algorithm 2) with silos weighted by their rows. Every
trajectory is computed by the printed recursions and, for the moments, also as the sums that these expand to (for Yogi
with the signs found); the two must agree to 40 digits.
"""

import json
from decimal import Decimal as D
from decimal import getcontext
from platform import python_version

getcontext().prec = 60

SILOS = [
    [("-1.0", "0.5"), ("0.0", "1.25"), ("1.0", "1.5"), ("2.0", "3.0")],
    [("0.5", "-1.0"), ("1.5", "0.0"), ("2.5", "0.75")],
    [("-2.0", "2.0"), ("-1.5", "1.0"), ("-0.5", "0.25"), ("0.0", "-0.5"), ("1.0", "-1.25")],
]
LOCAL_STEPS, LOCAL_RATE, ROUNDS = 3, D("0.1"), 8
RATE, MOMENTUM, DECAY, ADAPTIVITY = D("0.25"), D("0.9"), D("0.99"), D("0.001")
ROWS = sum(len(silo) for silo in SILOS)


def gradient(silo, w):
    """The gradient of the mean of (y - a - b x)^2 / 2."""
    total = [D(0), D(0)]
    for x, y in silo:
        residual = w[0] + w[1] * D(x) - D(y)
        total = [total[0] + residual, total[1] + residual * D(x)]
    return [t / len(silo) for t in total]


def change(w):
    """The mean of the silos' changes, weighted by rows."""
    total = [D(0), D(0)]
    for silo in SILOS:
        own = list(w)
        for _ in range(LOCAL_STEPS):
            own = [v - LOCAL_RATE * g for v, g in zip(own, gradient(silo, own))]
        weight = D(len(silo)) / ROWS
        total = [t + weight * (v - start) for t, v, start in zip(total, own, w)]
    return total


def sign(value):
    return D((value > 0) - (value < 0))


SECOND = {
    "adagrad": lambda v, s: v + s,
    "adam": lambda v, s: DECAY * v + (1 - DECAY) * s,
    "yogi": lambda v, s: v - (1 - DECAY) * s * sign(v - s),
}


def trajectory(name):
    momentum = D(0) if name == "adagrad" else MOMENTUM
    w, m, v = [D(0), D(0)], [D(0), D(0)], [ADAPTIVITY**2] * 2
    changes, signs, path = [], [], []
    for t in range(ROUNDS):
        delta = change(w)
        changes.append(delta)
        signs.append([sign(own - d * d) for own, d in zip(v, delta)])
        m = [momentum * own + (1 - momentum) * d for own, d in zip(m, delta)]
        v = [SECOND[name](own, d * d) for own, d in zip(v, delta)]
        for k in range(2):
            mean = sum((1 - momentum) * (momentum ** (t - s) if t > s else 1) * changes[s][k] for s in range(t + 1))
            if name == "adagrad":
                square = ADAPTIVITY**2 + sum(changes[s][k] ** 2 for s in range(t + 1))
            elif name == "adam":
                old = DECAY ** (t + 1) * ADAPTIVITY**2
                square = old + sum((1 - DECAY) * DECAY ** (t - s) * changes[s][k] ** 2 for s in range(t + 1))
            else:
                square = ADAPTIVITY**2 - sum((1 - DECAY) * signs[s][k] * changes[s][k] ** 2 for s in range(t + 1))
            assert abs(mean - m[k]) < D("1e-40") and abs(square - v[k]) < D("1e-40")
        w = [own + RATE * a / (b.sqrt() + ADAPTIVITY) for own, a, b in zip(w, m, v)]
        path.append([float(own) for own in w])
    return path


numbers = lambda rows: [[float(x), float(y)] for x, y in rows]
print(json.dumps({
    "made_by": f"Python {python_version()}, decimal with {getcontext().prec} digits",
    "silos": [numbers(silo) for silo in SILOS],
    "local_steps": LOCAL_STEPS,
    "local_rate": float(LOCAL_RATE),
    "rate": float(RATE),
    "decay": [float(MOMENTUM), float(DECAY)],
    "adaptivity": float(ADAPTIVITY),
    **{name: trajectory(name) for name in SECOND},
}, indent=1))
