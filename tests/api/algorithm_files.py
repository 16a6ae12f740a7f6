#!/usr/bin/env python3
"""algorithm_files.py ROOT [--write]: docs/algorithm_files.md says in which header every named algorithm and piece of
objective/ is, and which programs offer it. Fails if the page is not what the sources say; --write makes it so.

A program offers what its own sources name (the tables of words of the command line, the tasks of the trainers), and what
that is made of."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
headers = root / "include/rlcore"
page = root / "docs/algorithm_files.md"
POLICY = "policy trainers"
SYSTEMS = ["paper", "verl", "openrlhf", "trl"]


def program_of(path):
    """The program whose source this file is; None for what offers no algorithm."""
    parts = path.relative_to(root).parts
    if path.stem in ("grpo_trainer", "dapo_trainer", "ppo_trainer", "reinforce_plus_plus_trainer"):
        return POLICY
    if parts[0] == "examples":
        return f"minimal/{path.stem}" if parts[1] == "minimal" else path.stem if len(parts) == 2 else None
    parts = path.relative_to(headers).parts
    if parts[:2] in (("config", "algorithm"), ("train", "policy")):
        return POLICY
    if parts[:2] == ("train", "preference"):
        task = re.fullmatch(r"(\w+)_task", path.stem)
        return f"{task[1]}_trainer" if task else "preference trainers"
    return "sft_trainer" if parts[:2] == ("train", "supervised") else None


def words_of_programs():
    words = {}
    sources = [*(root / "examples").rglob("*.[ch]pp"), *(headers / "config").rglob("*.hpp"), *(headers / "train").rglob("*.hpp")]
    for path in sorted(sources):
        program = program_of(path)
        if program and ("#include \"rlcore/objective/" in path.read_text() or path.stem.endswith("_trainer")):
            code = re.sub(r"//[^\n]*|^#include[^\n]*|\"(\\.|[^\"\\])*\"", "", path.read_text(), flags=re.M)
            words.setdefault(program, set()).update(re.findall(r"(?:\w+::)*\w+", code))
    return words


def definitions():
    """Types and algorithms (paper::grpo) of objective/: name -> (header, the words of its definition); the algorithms."""
    found, algorithms = {}, set()
    for path in sorted((headers / "objective").rglob("*.hpp")):
        file, space, name = str(path.relative_to(headers / "objective")), None, None
        for line in path.read_text().splitlines():
            if match := re.match(r"namespace (\w+) \{", line):
                space = match[1]
            elif line.startswith("}  // namespace"):
                space = None
            elif space in SYSTEMS and (match := re.match(r"(?:template <.*> )?constexpr auto (\w+)\(", line)):
                name = f"{space}::{match[1]}"
                algorithms.add(name)
            elif match := re.match(r"(?:struct|class) (\w+)(?: final)?(?: :.*)? \{", line):
                name = f"{space}::{match[1]}" if space in SYSTEMS else match[1]
            if name:
                words = found.setdefault(name, (file, set()))[1]
                words.update(re.findall(r"(?:\w+::)*\w+", re.sub(r"//.*", "", line)))
                if re.search(r"^\}|^\S.*\}$", line):
                    name = None
    return found, algorithms


def offers(found):
    """name -> programs."""
    programs = {name: set() for name in found}
    spelt = {spelling: name for name in found for spelling in (name, f"rlcore::{name}")}

    def offer(name, program):
        if program not in programs[name]:
            programs[name].add(program)
            for word in found[name][1]:
                for spelling in (name.rpartition("::")[0] + "::" + word, word):
                    if spelling in spelt:
                        offer(spelt[spelling], program)
                        break

    for program, words in words_of_programs().items():
        for word in words & spelt.keys():
            offer(spelt[word], program)
    return programs


def table(title, names, found, programs):
    lines = [f"| {title} | header | offered by |", "|---|---|---|"]
    lines += [f"| `{name}` | `{found[name][0]}` | {', '.join(sorted(programs[name])) or '-'} |" for name in names]
    return "\n".join(lines)


def text():
    found, algorithms = definitions()
    programs = offers(found)
    algorithms = sorted(algorithms, key=lambda n: (SYSTEMS.index(n.split("::")[0]), n))
    types = [n for n in found if "::" not in n and not re.match(r"loop/|traced/|.*/detail/", found[n][0])]
    return f"""# Where every algorithm is

Written by `tests/api/algorithm_files.py . --write` from the sources; a test fails when it is out of date. Headers are below
`include/rlcore/objective/`. *Policy trainers* are `grpo_trainer`, `dapo_trainer`, `ppo_trainer` and
`reinforce_plus_plus_trainer`: they compose an estimator and a loss, which words of the command line name, so most of what
they offer stands in the second table. `-`: no program has it, C++ alone. What each computes: [algorithms](algorithms.md).

## Algorithms

{table("algorithm", algorithms, found, programs)}

## What they are made of

{table("type", types, found, programs)}
"""


if "--write" in sys.argv:
    page.write_text(text())
elif not page.exists() or page.read_text() != text():
    sys.exit("algorithm_files: docs/algorithm_files.md is out of date: tests/api/algorithm_files.py . --write")
