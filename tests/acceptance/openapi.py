#!/usr/bin/env python3
"""Schemathesis against the description that openai_server gives of itself at /openapi.json:

    openapi.py [--build build] [--examples 200] [--seed 1]

Requests that fit the description and requests that do not, to every endpoint of it: no answer is an error of the
server, every answer has a status, a type and a shape that the description names, what does not fit is refused. (What
fits may be refused as well: an id beyond the vocabulary, a text beyond the length. Methods that HTTP did not have when
cpp-httplib was written are answered with 400, and /ping has one more than the description.) Schemathesis lies in
BUILD/schemathesis, where pip puts it, or in the virtual environment $RLCORE_SCHEMATHESIS. Without it the exit code is 77.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from load import save_model, start

WHEEL = "schemathesis==4.32.5"


def program(build):
    """Schemathesis' command; None if there is none and pip cannot make one."""
    chosen = os.environ.get("RLCORE_SCHEMATHESIS")
    venv = pathlib.Path(chosen) if chosen else build / "schemathesis"
    command = venv / "bin/schemathesis"
    if not command.exists() and not chosen:
        with open(build / "schemathesis.log", "w") as log:
            for step in ([sys.executable, "-m", "venv", venv],
                         [venv / "bin/python3", "-m", "pip", "install", "--quiet", "--no-input", "--retries", "1", WHEEL]):
                if subprocess.run(step, stdout=log, stderr=log).returncode != 0:
                    return None
    return command if command.exists() else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build")
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    build = options.build.resolve()
    command = program(build)
    if not command:
        print(f"openapi: {WHEEL} is not there and cannot be installed", flush=True)
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        process, port = start(build, save_model(build, place), place / "log")
        try:
            code = subprocess.run(
                [command, "run", f"http://127.0.0.1:{port}/openapi.json", "--checks", "all", "--exclude-checks",
                 "positive_data_acceptance,unsupported_method,allow_header_conformance", "--max-examples", str(options.examples), "--seed", str(options.seed),
                 "--workers", "2", "--continue-on-failure", "--request-timeout", "60", "--generation-database", "none",
                 "--no-color"], cwd=place).returncode
            if process.poll() is not None:
                print(f"openapi: the server has ended:\n{(place / 'log').read_text()}", flush=True)
                code = 1
        finally:
            process.kill()
    sys.exit(code)


if __name__ == "__main__":
    main()
