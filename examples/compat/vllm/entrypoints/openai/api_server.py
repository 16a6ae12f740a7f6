"""Becomes openai_server, with the same arguments."""
import os
import shutil
import sys


def program() -> str:
    """RLCORE_OPENAI_SERVER, else the one that this checkout has built, else the one on the path."""
    chosen = os.environ.get("RLCORE_OPENAI_SERVER")
    if chosen:
        return chosen
    top = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 5))
    built = os.path.join(top, "build", "bin", "openai_server")
    found = built if os.access(built, os.X_OK) else shutil.which("openai_server")
    if not found:
        sys.exit(f"vllm (rlcore): no {built} and no openai_server on the path; build it, or name it in RLCORE_OPENAI_SERVER")
    return found


if __name__ == "__main__":
    path = program()
    try:
        os.execv(path, [path] + sys.argv[1:])
    except OSError as error:
        sys.exit(f"vllm (rlcore): cannot run {path}: {error.strerror}")
