#!/bin/bash
# preset.sh PRESET SUITES [FILTER [OPTION...]]: configures a preset of CMakePresets.json, builds the test programs of
# SUITES ("nn train", names of tests/CMakeLists.txt) and runs their tests; FILTER is a part of the names of tests, OPTION
# goes to cmake. Sanitized units are large: one job for each 3 GiB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=$1 suites=$2 filter=${3:-}
shift $(($# < 3 ? 2 : 3))
jobs=$(awk -v cores="$(nproc)" '/^MemAvailable/ {n = int($2 / 3145728); print n < 1 ? 1 : n < cores ? n : cores}' /proc/meminfo)
targets=() tests=(--label-regex "^(${suites// /|})\$")
for suite in $suites; do
  [ "$suite" = fuzz ] && targets+=(fuzz_driver) || targets+=("test_$suite")
done
[ -z "$filter" ] || export GTEST_FILTER="*$filter*"
generator=()
[ -e "build-$preset/CMakeCache.txt" ] || ! command -v ninja >/dev/null || generator=(-G Ninja)
unset MAKEFLAGS MFLAGS  # of the make that called
cmake --preset "$preset" "${generator[@]}" "$@" >/dev/null
cmake --build --preset "$preset" --parallel "$jobs" --target "${targets[@]}"
ctest --preset "$preset" --parallel "$jobs" --no-tests=error "${tests[@]}"
