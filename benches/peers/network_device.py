"""The sizes of the network of benches/network_device.rs, and the arguments of its peers."""
import argparse

WIDTHS = [784, 200, 10]
PRIOR_SCALE = 0.3
INITIAL_SCALE = 0.01


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--particles", type=int, default=32)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--steps", type=int, default=20, help="steps of a block")
    parser.add_argument("--tf32", action="store_true")
    return parser
