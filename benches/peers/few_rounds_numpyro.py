"""Times NumPyro's no-U-turn sampler on six cities for `compare --case few_rounds`: the run of `nuts_numpyro.py`.

    python few_rounds_numpyro.py    prints one JSON object: microseconds, compilation included
"""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("nuts_numpyro.py")


def seconds(method, precision):
    command = [sys.executable, str(SCRIPT), "--one", method, "0.8", precision]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["seconds"]


def main():
    two = {p: min(seconds(method, p) for method in ("parallel", "vectorized")) for p in ("f32", "f64")}
    one = {p: seconds("sequential", p) for p in ("f32", "f64")}
    times = {f"six_cities_{p}": 1e6 * two[p] for p in two} | {f"six_cities_one_thread_{p}": 1e6 * one[p] for p in one}
    print(json.dumps(times))


if __name__ == "__main__":
    main()
