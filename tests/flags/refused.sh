#!/usr/bin/env bash
# refused.sh [COMPILER...]: flags that give up IEEE arithmetic must be refused in words, by each compiler that is here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- g++ clang++
cat >"$work/loss.cpp" <<'SOURCE'
#include <cstdio>
#include <exception>
#include <vector>

#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/tensor/span.hpp"

int main() {
  const std::vector<float> logp{-1, -2}, advantage{1};
  const std::vector<int> offsets{0, 2};
  const rlcore::token_batch<float> batch{.logp = logp, .old_logp = logp, .ref_logp = logp,
                                         .advantage = rlcore::per_row(advantage), .offsets = offsets};
  try {
    std::printf("loss %g\n", rlcore::evaluate(rlcore::serial{}, rlcore::paper::grpo(), batch, rlcore::loss_counts(batch)).loss());
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
  }
}
SOURCE

compile() { "$compiler" -std=c++20 -O1 -I "$here/../../include" "$@" "$work/loss.cpp" -o "$work/loss" >"$work/output" 2>&1; }
wrong() { echo "refused: $compiler $*"; sed 's/^/  /' "$work/output"; exit 1; }
tried=0
for compiler; do
  command -v "$compiler" >/dev/null || continue
  tried=$((tried + 1))
  clang=$("$compiler" --version | grep -c clang || true)
  refused=("-ffast-math" "-Ofast" "-ffinite-math-only")
  # g++ tells of these; clang does not, and takes them back where the source says so (hashes.sh).
  [ "$clang" -gt 0 ] || refused+=("-freciprocal-math" "-fno-signed-zeros" "-funsafe-math-optimizations"
                                  "-fassociative-math -fno-signed-zeros -fno-trapping-math")
  for flags in "${refused[@]}"; do
    # shellcheck disable=SC2086
    ! compile -Wfatal-errors -fsyntax-only $flags || wrong "$flags: not refused"
    grep -q 'rlcore: -ffast-math, -Ofast and their parts' "$work/output" || wrong "$flags: refused in other words:"
  done
  if [ "$clang" -eq 0 ]; then
    ! compile -fsyntax-only -fsingle-precision-constant || wrong "-fsingle-precision-constant: not refused"
    grep -q 'rlcore: -fsingle-precision-constant makes other numbers' "$work/output" || wrong "refused in other words:"
  fi
  "$compiler" -std=c++20 -O1 -I "$here/../../include" -c "$work/loss.cpp" -o "$work/loss.o" >"$work/output" 2>&1 &&
    "$compiler" "$work/loss.o" -o "$work/loss" >>"$work/output" 2>&1 || wrong "no flags: refused"
  "$work/loss" >"$work/output"
  grep -q '^loss -1$' "$work/output" || wrong "no flags: another loss"
  if [ "$(uname -m)" = x86_64 ]; then  # as it is linked alone: crtfastmath.o, which runs before main
    "$compiler" -ffast-math "$work/loss.o" -o "$work/loss" || wrong "linked with -ffast-math: does not link"
    "$work/loss" >"$work/output"
    grep -q '^rlcore: this thread takes subnormal numbers for 0' "$work/output" || wrong "linked with -ffast-math: not refused"
  fi
  compile -ffast-math -fno-fast-math || wrong "-ffast-math -fno-fast-math: refused"
  "$work/loss" >"$work/output"
  grep -q '^loss -1$' "$work/output" || wrong "-ffast-math -fno-fast-math: another loss"
  if [ "$clang" -gt 0 ] && grep -qw fma /proc/cpuinfo 2>/dev/null; then
    compile -ffp-contract=fast -mfma || wrong "-ffp-contract=fast: does not compile"
    "$work/loss" >"$work/output"
    grep -q "rlcore: this file was compiled with clang's -ffp-contract=fast" "$work/output" || wrong "-ffp-contract=fast: not refused"
  fi
  if [ "$clang" -gt 0 ]; then
    for flags in "-fno-signed-zeros" "-O3 -fassociative-math -fno-signed-zeros -fno-trapping-math"; do
      # shellcheck disable=SC2086
      compile $flags || wrong "$flags: does not compile"
      "$work/loss" >"$work/output"
      grep -q "rlcore: this file was compiled with -fno-signed-zeros" "$work/output" || wrong "$flags: not refused"
    done
  fi
done
[ "$tried" -gt 0 ] || { echo "refused: none of these compilers is here: $*"; exit 1; }
