#!/bin/bash
# What projects that use rlcore need, on a bare system: a compiler and CMake, nothing of ours. Runs inside of
# `tests/bare/run.sh tests/bare/consumers.sh`: installs the package and builds the consumers of tests/install and
# tests/subdirectory, each in turn; without MPI, Eigen or any other part.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

{ apt-get update && apt-get install -y --no-install-recommends g++ cmake; } </dev/null >"$work/log" 2>&1 ||
  { tail -n 5 "$work/log"; exit 1; }

# quietly COMMAND...: its output only if it fails.
quietly() {
  "$@" >"$work/log" 2>&1 || { cat "$work/log"; echo "consumers: failed: $*"; exit 1; }
}
quietly cmake -S . -B "$work/rlcore" -DRLCORE_TESTS=OFF -DRLCORE_EXAMPLES=OFF -DRLCORE_BENCH=OFF
quietly cmake --install "$work/rlcore" --prefix "$work/prefix"
# consumer FOLDER PROGRAM OPTION...
consumer() {
  local source=$1 program=$2
  shift 2
  quietly cmake -S "$source" -B "$work/$source" "-DCMAKE_PREFIX_PATH=$work/prefix" "$@"
  quietly cmake --build "$work/$source" --parallel "$(nproc)"
  quietly "$work/$source/$program"
  echo "consumers: $source builds and runs"
}
consumer tests/install/consumer consumer -DEXPECTED_PARTS=threads
consumer tests/install/ranks ranks -DWITH_MPI=0
consumer tests/subdirectory/consumer consumer "-DRLCORE_SOURCE=$PWD" -DEXPECTED_PARTS=threads
quietly g++ -std=c++20 -Iinclude examples/minimal/grpo.cpp -o "$work/grpo"  # README's first command, not optimised
quietly "$work/grpo"
echo "consumers: examples/minimal/grpo.cpp builds with nothing but a compiler, and runs"
