"""What Python's argparse stores for command lines in the style of OpenRLHF: flag_grammar.json.

Each case: the arguments and what was stored for the flags that were given (null: argparse refused the line).
Standard library only: python flag_grammar.py > flag_grammar.json
"""

import argparse
import contextlib
import io
import json

parser = argparse.ArgumentParser(prog="x", add_help=False)
parser.add_argument("--text", type=str)
parser.add_argument("--count", type=int)
parser.add_argument("--rate", type=float)
parser.add_argument("--rate_floor", type=float)
parser.add_argument("--switch_on", action="store_true", default=None)
parser.add_argument("--names", type=str, nargs="*")
parser.add_argument("--pair", type=float, nargs=2)

LINES = [
    ["--text", "a b"],
    ["--text=a=b"],
    ["--text="],
    ["--text", ""],
    ["--text", "-"],
    ["--text", "-a b"],
    ["--text", "-ab"],
    ["--text", "--rate", "1"],
    ["--text", "null"],
    ["--text", "[a,b]"],
    ["--text", "'quoted'"],
    ["--tex", "short"],
    ["--count", "3"],
    ["--count", "-1"],
    ["--count=-1"],
    ["--count", "1.5"],
    ["--count", "1e6"],
    ["--count", "1_000"],
    ["--count", "x"],
    ["--rate", "1e-5"],
    ["--rate", ".5"],
    ["--rate", "-2.5"],
    ["--rate=-1e-5"],
    ["--rate", "3"],
    ["--rate", "abc"],
    ["--rate_", "1"],
    ["--rat", "1"],
    ["--switch_on"],
    ["--switch", "--count", "2"],
    ["--switch_on=1"],
    ["--switch-on"],
    ["--names"],
    ["--names", "a"],
    ["--names", "a", "b", "--count", "1"],
    ["--names", "+", "-", "1"],
    ["--names", "-1", "1"],
    ["--names=a"],
    ["--pair", "0.9", "0.95"],
    ["--pair", "-0.9", "0.95", "--switch_on"],
    ["--pair", "0.9"],
    ["--pair=0.9", "0.95"],
    ["--pair", "0.9", "0.95", "0.99"],
    ["--count", "1", "--count", "2"],
    ["--unknown", "1"],
    ["-count", "1"],
    ["stray"],
]


def stored(line):
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            found = vars(parser.parse_args(line))
        except SystemExit:
            return None
    return {name: value for name, value in found.items() if value is not None}


if __name__ == "__main__":
    rows = [json.dumps({"arguments": line, "stored": stored(line)}) for line in LINES]
    print("[\n" + ",\n".join(rows) + "\n]")
