#!/usr/bin/env python3
"""namespaces.py ROOT: prints the namespaces that each folder of include/rlcore opens, and fails where a folder opens one of
another folder. A namespace belongs to the folder of its name; else to the only folder that opens it. A block that only
declares a class is no opening."""
import collections
import pathlib
import re
import sys

# The agreed exceptions: namespaces of several folders.
SHARED = {
    "detail": {"core", "objective"},
    "train": {"config", "telemetry", "planning", "train"},  # what a command line fills
    "ascend": {"device", "emulator"},  # one ABI, provided by CANN or by the emulator
    "nvidia": {"device", "emulator"},  # likewise
    "strategy": {"parallel", "train"},  # a strategy and its trainable model
}


def without_text(source):
    source = re.sub(r'R"(\w*)\(.*?\)\1"', "", source, flags=re.S)
    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(\\.|[^\"\\\n])*\"|(?<![0-9a-fA-F])'(\\.|[^'\\\n])+'", "", source, flags=re.S)


def outermost(source):
    """The namespaces of a header that are in no other namespace than rlcore's."""
    found, depth = [], 0
    for match in re.finditer(r"\bnamespace\s+(\w+)[\w:]*\s*\{((?:\s*(?:class|struct) \w+;)+\s*\})?|[{}]", without_text(source)):
        if match[1]:
            if match[2]:
                continue  # declares classes
            if depth == 0 and match[1] not in ("rlcore", "v0", "RLCORE_LINKAGE"):
                found.append(match[1])
            depth += 1
        else:
            depth += 1 if match[0] == "{" else -1
    return found


def faults(opened):
    """opened: folder -> namespaces."""
    users = collections.defaultdict(set)
    for folder, names in opened.items():
        for name in names:
            users[name].add(folder)
    for name, folders in sorted(users.items()):
        allowed = SHARED.get(name) or ({name} if name in opened else folders if len(folders) == 1 else set())
        for folder in sorted(folders - allowed):
            yield f"{folder}/ opens the namespace {name}, which belongs to {', '.join(sorted(allowed)) or 'no folder'}"


headers = pathlib.Path(sys.argv[1]) / "include" / "rlcore"
opened = collections.defaultdict(collections.Counter)
for path in sorted(headers.rglob("*.hpp")):
    parts = path.relative_to(headers).parts
    opened[parts[0] if len(parts) > 1 else "."].update(outermost(path.read_text()))
for folder, names in opened.items():
    print(f"{folder:12} {' '.join(sorted(names))}")

assert outermost('namespace a {\nnamespace b {}\nvoid f() { "{"; }\n}\nnamespace c { class d; }\nnamespace e::f {}') == ["a", "e"]
assert len(list(faults({"text": {"text"}, "nn": {"nn", "text"}, "optim": {"help"}, "data": {"help"}}))) == 3
bad = list(faults(opened))
bad += [f"nothing needs the exception {name}: {folder}/" for name in SHARED for folder in sorted(SHARED[name]) if name not in opened[folder]]
print(*(f"namespaces: {line}" for line in bad), sep="\n")
sys.exit(bool(bad))
