#!/usr/bin/env python3
"""syntax.py BUILD [TEXT]: every unit of a configured build folder, programs, library and tests, but the headers alone, means
something to its compiler, without a warning (-fsyntax-only) and without precompiled headers. With -DRLCORE_TEST_BATCH=1 a
unit of the tests is one file, which includes what it uses. With TEXT only the units with it in their path."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

build = pathlib.Path(sys.argv[1])
units = [unit for unit in json.loads((build / "compile_commands.json").read_text())
         if "/tests/headers/" not in unit["file"] and "cmake_pch" not in unit["file"]
         and all(text in unit["file"] for text in sys.argv[2:])]
if not units:
    sys.exit(f"syntax: {build}: no units")


def failure_of(unit):
    command = re.sub(r" -o \S+ -c ", " -fsyntax-only ", unit["command"])
    command = re.sub(r"(-Xclang )?-include(-pch)? (-Xclang )?\S*cmake_pch\S*", "", command)
    result = subprocess.run(command, shell=True, cwd=unit["directory"], text=True, capture_output=True)
    return result.stderr if result.returncode else ""


failed = 0
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as jobs:
    for text in filter(None, jobs.map(failure_of, units)):
        failed += 1
        print(text, flush=True)
print(f"syntax: {len(units)} units, {failed} failed")
sys.exit(failed > 0)
