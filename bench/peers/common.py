"""What every peer program needs: options, the clock, the memory, and one JSON line per result."""

import argparse
import ctypes
import gc
import json
import time


def arguments(items, **further):
    parser = argparse.ArgumentParser()
    parser.add_argument("item", choices=items)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tuned", action="store_true", help="all settings of the documented set, not the plain script")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    for name, settings in further.items():
        parser.add_argument("--" + name, **settings)
    options = parser.parse_args()
    options.budget = 0.1 if options.quick else 0.3
    return options


def wants(options, name):
    return options.only in name


def line(options, who, case, seconds, work, unit, memory=None, how=""):
    print(json.dumps({"item": options.item, "case": case, "who": who, "threads": options.threads, "seconds": seconds,
                      "work": work, "unit": unit, "memory": memory, "how": how}), flush=True)


def best_seconds(function, budget):
    """The best of as many calls as fit into the budget and at least three, after two that do not count; of calls that
    take seconds two or one, after one. Short calls are timed in groups."""
    start = time.perf_counter()
    function()
    first = time.perf_counter() - start
    if first < 4:  # it may have been compiled
        start = time.perf_counter()
        function()
        first = min(first, time.perf_counter() - start)
    calls, least = max(1, int(2e-4 / first)), 3 if first < 1 else 2 if first < 4 else 1
    best, spent, k = float("inf"), 0.0, 0
    while k < least or spent < budget:
        start = time.perf_counter()
        for _ in range(calls):
            function()
        t = time.perf_counter() - start
        best, spent, k = min(best, t / calls), spent + t, k + 1
    return best


def _status(key):
    with open("/proc/self/status") as f:
        for text in f:
            if text.startswith(key):
                return 1024 * int(text.split()[1])
    return 0


class MemoryPeak:
    """Peak of resident memory since the object was made, and above what was resident then."""

    def __init__(self):
        try:
            gc.collect()
            ctypes.CDLL(None).malloc_trim(0)  # what earlier cases left in the heap
        except (OSError, AttributeError):
            pass
        try:
            with open("/proc/self/clear_refs", "w") as f:
                f.write("5")
        except OSError:
            pass
        self.before = _status("VmRSS:")

    def total(self):
        return _status("VmHWM:")

    def extra(self):
        return max(0, self.total() - self.before)


MODELS = {  # vocabulary, hidden, intermediate, layers, heads, key heads: as in bench/speed/models.hpp
    "1M": (512, 128, 384, 4, 4, 4),
    "124M": (50257, 768, 2048, 12, 12, 12),
    "0.5B": (151936, 896, 4864, 24, 14, 2),
}
