"""Golden solutions of two initial value problems with their sensitivities.

    python tests/golden/ode.py > tests/golden/ode.json

Needs numpy and scipy. States x and sensitivities s = dx/d(x(0), p) are integrated together, ds/dt = J s + df/dp, with
derivatives written by hand: Lotka and Volterra's predators and prey by DOP853, Robertson's reactions, which are stiff,
by Radau. Each is solved twice, with tolerances that differ by ten, and the two must agree.
"""

import json
from platform import python_version

import numpy as np
import scipy
from scipy.integrate import solve_ivp


def lotka_volterra(x, p):
    f = [p[0] * x[0] - p[1] * x[0] * x[1], p[3] * x[0] * x[1] - p[2] * x[1]]
    jacobian = [[p[0] - p[1] * x[1], -p[1] * x[0]], [p[3] * x[1], p[3] * x[0] - p[2]]]
    by_p = [[x[0], -x[0] * x[1], 0, 0], [0, 0, -x[1], x[0] * x[1]]]
    return map(np.array, (f, jacobian, by_p))


def robertson(x, p):
    a, b, c = p[0] * x[0], p[1] * x[1] * x[2], p[2] * x[1] ** 2
    f = [-a + b, a - b - c, c]
    jacobian = [
        [-p[0], p[1] * x[2], p[1] * x[1]],
        [p[0], -p[1] * x[2] - 2 * p[2] * x[1], -p[1] * x[1]],
        [0, 2 * p[2] * x[1], 0],
    ]
    by_p = [[-x[0], x[1] * x[2], 0], [x[0], -x[1] * x[2], -x[1] ** 2], [0, 0, x[1] ** 2]]
    return map(np.array, (f, jacobian, by_p))


def solve(system, x0, p, times, method, relative):
    n, width = len(x0), len(x0) + len(p)

    def right(_, y):
        x, s = y[:n], y[n:].reshape(n, width)
        f, jacobian, by_p = system(x, p)
        return np.concatenate([f, (jacobian @ s + np.hstack([np.zeros((n, n)), by_p])).ravel()])

    start = np.concatenate([x0, np.hstack([np.eye(n), np.zeros((n, len(p)))]).ravel()])
    solution = solve_ivp(right, (0, times[-1]), start, method, times, rtol=relative, atol=relative * 1e-4)
    assert solution.success, solution.message
    return solution.y.T


def case(name, system, x0, p, times, method, relative, agreement):
    fine, coarse = (solve(system, x0, p, times, method, r) for r in (relative, 10 * relative))
    worst = np.max(np.abs(fine - coarse) / (1e-6 + np.abs(fine)))
    assert worst < agreement, (name, worst)
    n = len(x0)
    rows = [
        {"time": t, "state": list(y[:n]), "sensitivity": [list(row) for row in y[n:].reshape(n, -1)]}
        for t, y in zip(times, fine)
    ]
    return {"name": name, "initial": x0, "parameters": p, "rows": rows}


cases = [
    case("lotka_volterra", lotka_volterra, [1.2, 0.7], [0.8, 0.5, 0.6, 0.3], [0.5, 1.0, 4.0, 12.0], "DOP853", 1e-13, 1e-10),
    case("robertson", robertson, [1.0, 0.0, 0.0], [0.04, 1e4, 3e7], [0.4, 4.0, 40.0], "Radau", 1e-11, 1e-6),
]
versions = f"Python {python_version()}, numpy {np.__version__}, scipy {scipy.__version__}"
print(json.dumps({"source": "tests/golden/ode.py", "versions": versions, "cases": cases}, indent=1))
