#!/usr/bin/env python3
"""Starts a stock SuperNode for each port, forked from one process that has imported the engine, to save memory.

    python supernodes.py SUPERLINK PORT [PORT ...]
"""

import ctypes
import os
import signal
import sys

from flwr.supernode.cli import flower_supernode

PR_SET_PDEATHSIG = 1

superlink, ports = sys.argv[1], sys.argv[2:]
children = []
for port in ports:
    child = os.fork()
    if child == 0:
        # The end of the launcher ends all nodes.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        sys.argv = ["flower-supernode", "--insecure", "--superlink", superlink, "--isolation", "process"]
        sys.argv += ["--host", "127.0.0.1", "--port", port]
        sys.exit(flower_supernode())
    children.append(child)
for child in children:
    os.waitpid(child, 0)
