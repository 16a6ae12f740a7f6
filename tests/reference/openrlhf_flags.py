"""Names, kinds and defaults of the flags of OpenRLHF's preference trainers: openrlhf_flags.json.

    git clone --branch v0.7.5 https://github.com/OpenRLHF/OpenRLHF && python openrlhf_flags.py OpenRLHF

Reads the command line definitions only: nothing of OpenRLHF is run or installed.
"""

import ast
import json
import pathlib
import sys

KINDS = {"int": int, "float": float, "str": str}


def flags(source):
    found = {}
    for node in ast.walk(ast.parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"):
            continue
        words = {k.arg: k.value for k in node.keywords}
        name = ast.literal_eval(node.args[0]).lstrip("-")
        entry = {"nargs": ast.literal_eval(words["nargs"]) if "nargs" in words else 1}
        if "action" in words:
            entry["nargs"] = 0
        else:
            entry["type"] = words["type"].id
        try:
            entry["default"] = ast.literal_eval(words["default"])
        except ValueError:
            entry["default"] = "<time>"  # the name of a run holds the time
        found[name] = entry
    return dict(sorted(found.items()))


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1]) / "openrlhf" / "cli"
    out = {name: flags((folder / f"train_{name}.py").read_text()) for name in ("dpo", "kto", "rm", "prm")}
    lines = [f'"{t}": {{\n' + ",\n".join(f'  "{n}": {json.dumps(e)}' for n, e in fs.items()) + "\n}" for t, fs in out.items()]
    pathlib.Path(__file__).with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
