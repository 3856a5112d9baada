#!/usr/bin/env python3
"""Forks stock SuperLinks and SuperNodes from one process that has imported the engine, which takes seconds for each.

    python forks.py

A line of its input is JSON: `program`, `arguments`, `environment`, the file of the `log`, and the longest idle sleep in seconds,
`sleep`, or null for a program as it is installed. A SuperNode whose sleeps are capped is taken for gone after 20 s, and not after 60:
the engine allows no shorter interval of its heartbeats. The answer is the number of the process. With the end of the input all of them end.
"""

import ctypes
import json
import os
import signal
import sys
import time

pause, longest = time.sleep, None
time.sleep = lambda seconds: pause(seconds if longest is None else min(seconds, longest))

import flwr.superlink.cli  # noqa: E402
import flwr.superlink.cli.flower_superlink  # noqa: E402
import flwr.supercore.heartbeat  # noqa: E402
import flwr.supernode.cli  # noqa: E402
import flwr.supernode.fleet_http_connection  # noqa: E402

PROGRAMS = {
    "flower-superlink": flwr.superlink.cli.flower_superlink,
    "flower-supernode": flwr.supernode.cli.flower_supernode,
}
PR_SET_PDEATHSIG = 1
SHORTEST_HEARTBEAT = 10

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while line := sys.stdin.readline():
    asked = json.loads(line)
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for own, to in [(os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)]:
            os.dup2(own, to)
        os.environ.update(asked["environment"])
        longest = asked["sleep"]
        if longest is not None:
            for module in [flwr.supercore.heartbeat, flwr.supernode.fleet_http_connection]:
                module.HEARTBEAT_DEFAULT_INTERVAL = SHORTEST_HEARTBEAT
        sys.argv = [asked["program"], *asked["arguments"]]
        sys.exit(PROGRAMS[asked["program"]]())
    print(child, flush=True)
