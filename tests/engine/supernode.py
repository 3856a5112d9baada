#!/usr/bin/env python3
"""Starts a stock SuperNode with idle sleeps of at most a tenth of a second, for tests of other parts.

    python supernode.py ARGUMENTS OF flower-supernode
"""

import sys
import time

pause = time.sleep
time.sleep = lambda seconds: pause(min(seconds, 0.1))

from flwr.supernode.cli import flower_supernode  # noqa: E402

sys.argv[0] = "flower-supernode"
sys.exit(flower_supernode())
