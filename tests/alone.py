#!/usr/bin/env python3
"""alone.py BUILD: every test file of a build folder configured with -DRLCORE_TEST_BATCH=1 compiles as if alone.

Only its meaning is checked (-fsyntax-only): so each includes what it uses, and this compiler has no warning for it.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

build = pathlib.Path(sys.argv[1])
units = [unit for unit in json.loads((build / "compile_commands.json").read_text()) if unit["file"].endswith("_test.cpp")]
if not units:
    sys.exit(f"alone: {build}: no test files; configure it with -DRLCORE_TEST_BATCH=1")


def failure_of(unit):
    command = re.sub(r" -o \S+ -c ", " -fsyntax-only ", unit["command"])
    result = subprocess.run(command, shell=True, cwd=unit["directory"], text=True, capture_output=True)
    return result.stderr if result.returncode else ""


failed = 0
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as jobs:
    for text in filter(None, jobs.map(failure_of, units)):
        failed += 1
        print(text, flush=True)
print(f"alone: {len(units)} test files, {failed} failed")
sys.exit(failed > 0)
