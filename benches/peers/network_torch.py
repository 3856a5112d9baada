#!/usr/bin/env python3
"""The step of benches/network_device.rs in PyTorch: mean-field VI of a 784-200-10 network, compiled.

    python -m pip install torch
    python benches/peers/network_torch.py --device cuda --batch 8192 --particles 32

Prints one line: `torch-bench network MILLISECONDS bound VALUE`, the median over blocks of steps. Each block ends with
one read of the bound, as an interval of Partita's on-device fit does; PyTorch draws its noise on the device, Partita
uploads keyed noise. Precision: float32; `--tf32` uses the reduced precision of the tensor cores (Partita's default is
full float32).
"""
import statistics
import time

import torch

from network_device import INITIAL_SCALE, PRIOR_SCALE, WIDTHS, arguments


def main():
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    torch.manual_seed(1)
    device, particles = torch.device(options.device), options.particles
    images = torch.rand(options.rows, WIDTHS[0], device=device)
    classes = torch.randint(0, WIDTHS[-1], (options.rows,), device=device)
    shapes = [shape for a, b in zip(WIDTHS, WIDTHS[1:]) for shape in ((a, b), (b,))]
    sizes = [torch.Size(shape).numel() for shape in shapes]
    count = sum(sizes)
    mean = torch.zeros(count, device=device, requires_grad=True)
    log_scale = torch.full((count,), INITIAL_SCALE, device=device).log().requires_grad_()
    optimiser = torch.optim.Adam([mean, log_scale], lr=1e-3, eps=1e-8, fused=device.type == "cuda")

    def bound(mean, log_scale, noise, x, y):
        weights = mean + log_scale.exp() * noise  # [particles, count]
        w1, b1, w2, b2 = (
            part.reshape(particles, *shape) for part, shape in zip(weights.split(sizes, dim=1), shapes)
        )
        hidden = torch.relu(torch.matmul(x, w1) + b1[:, None])
        logits = torch.matmul(hidden, w2) + b2[:, None]
        log_likelihood = torch.log_softmax(logits, dim=2).gather(2, y.expand(particles, -1)[..., None]).sum((1, 2))
        log_prior = -0.5 * (weights / PRIOR_SCALE).square().sum(1)
        # Sticking the landing: log q at fixed parameters.
        fixed_mean, fixed_scale = mean.detach(), log_scale.detach()
        log_q = (-0.5 * ((weights - fixed_mean) / fixed_scale.exp()).square() - fixed_scale).sum(1)
        return (options.rows / x.shape[0] * log_likelihood + log_prior - log_q).mean()

    compiled = bound if options.no_compile else torch.compile(bound)

    def step():
        rows = torch.randint(0, options.rows, (options.batch,), device=device)
        noise = torch.randn(particles, count, device=device)
        optimiser.zero_grad(set_to_none=True)
        value = compiled(mean, log_scale, noise, images[rows], classes[rows])
        (-value).backward()
        optimiser.step()
        return value.detach()

    for _ in range(5):
        last = step()
    last.item()
    milliseconds = []
    for _ in range(options.blocks):
        start = time.perf_counter()
        for _ in range(options.steps):
            last = step()
        read = last.item()
        milliseconds.append(1e3 * (time.perf_counter() - start) / options.steps)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"torch-bench network {statistics.median(milliseconds):.3f} bound {read:.1f} on {name}, torch {torch.__version__}")


if __name__ == "__main__":
    main()
