"""Golden numbers for the 2-Wasserstein barycentre of Gaussians, by POT (Python Optimal Transport).

    python -m pip install POT==0.9.7.post1 numpy && python tests/golden/barycentre.py > tests/golden/barycentre.json
"""

import json

import numpy as np
import ot

means = np.array([[0.0, 1.0, -0.5], [2.0, 0.5, 0.3], [-1.0, 0.0, 1.1]])
factors = [
    np.array([[1.0, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.2, 0.4, 0.5]]),
    np.array([[0.5, 0.0, 0.0], [-0.6, 1.2, 0.0], [0.1, 0.2, 0.9]]),
    np.array([[2.0, 0.0, 0.0], [1.0, 0.4, 0.0], [0.7, -0.3, 0.3]]),
]
covariances = np.array([factor @ factor.T for factor in factors])
weights = np.array([0.5, 0.3, 0.2])
mean, covariance = ot.gaussian.bures_wasserstein_barycenter(
    means, covariances, weights=weights, num_iter=10_000, eps=1e-14
)[:2]
print(json.dumps({
    "made_by": f"POT {ot.__version__}, numpy {np.__version__}",
    "means": means.tolist(),
    "covariances": covariances.reshape(3, 9).tolist(),
    "weights": weights.tolist(),
    "mean": mean.tolist(),
    "covariance": covariance.reshape(9).tolist(),
}, indent=1))
