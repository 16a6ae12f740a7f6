#!/usr/bin/env bash
# hashes.sh [--all] [COMPILER...]: compiles three programs with many flags, runs them, and prints the hashes of their
# bits: losses_hash (losses, gradients, advantages), kernels_hash (every kernel of every set of this processor, which
# must all agree) and the small trainer (sampling, training steps, weights). Every line that they print is an
# instruction set and a hash: equal sets must have equal hashes, whatever the compiler, the level and the processor that
# the code was meant for. Exit code 1 if they differ. Without --all: a few cells, those that differed first.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
include=$here/../../include
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

all=''
[ "${1:-}" = --all ] && { all=yes; shift; }
[ $# -gt 0 ] || set -- g++ clang++
compilers=()
for compiler; do command -v "$compiler" >/dev/null && compilers+=("$compiler"); done
[ ${#compilers[@]} -gt 0 ] || { echo "hashes: none of these compilers is here: $*"; exit 1; }

case $(uname -m) in
  x86_64) marches=(x86-64 x86-64-v2 x86-64-v3 haswell znver3 x86-64-v4 sapphirerapids native) ;;
  *) marches=(native) ;;
esac
is_clang() { "$1" --version | grep -q clang; }
# cells_of PROGRAM COMPILER: the flags to try.
cells_of() {
  local level march
  if [ -n "$all" ]; then
    for level in -O1 -O2 -O3; do
      [ "$1" = losses_hash ] || [ $level != -O1 ] || continue
      for march in "${marches[@]}"; do echo "$level -march=$march"; done
    done
    for march in haswell native; do echo "-O2 -march=x86-64 -mtune=$march"; done
    if is_clang "$2"; then
      # No macro tells of these; what they allow is taken back in the source. With -fno-signed-zeros they are refused.
      echo "-O3 -march=native -fassociative-math -freciprocal-math -fno-trapping-math"
    else
      printf '%s\n' "-O3 -march=haswell -ffp-contract=fast" "-O3 -march=native -fno-tree-slp-vectorize"
    fi
  elif [ "$(uname -m)" != x86_64 ]; then
    printf '%s\n' "-O2" "-O3 -march=native"
  elif [ "$1" = losses_hash ]; then
    if is_clang "$2"; then
      printf '%s\n' "-O3 -march=x86-64-v2" "-O2 -march=x86-64-v3" "-O3 -march=native"
    else
      printf '%s\n' "-O2 -march=x86-64" "-O2 -march=haswell" "-O3 -march=znver3" "-O2 -march=x86-64-v4"
    fi
  elif is_clang "$2"; then
    echo "-O1 -march=x86-64-v3"
  elif [ "$1" = kernels_hash ]; then
    echo "-O1 -march=x86-64"
  else
    echo "-O2 -march=znver3"
  fi
}

declare -A seen first
failed=''
printf '%-14s %-8s %-12s %-17s %s\n' program compiler set hash flags
for source in "$here"/losses_hash.cpp "$here"/kernels_hash.cpp "$here"/../aarch64/small_trainer.cpp; do
  program=$(basename "$source" .cpp)
  ran=0
  while read -r compiler flags; do
    cell="$compiler $flags"
    # shellcheck disable=SC2086
    if ! "$compiler" -std=c++20 $flags -I "$include" -I "$here/.." -pthread "$source" -o "$work/run" -ldl 2>"$work/errors"; then
      grep -qiE "unknown target CPU|bad value|unrecognized" "$work/errors" && continue  # an older compiler
      cat "$work/errors"
      exit 1
    fi
    code=0
    "$work/run" >"$work/lines" 2>&1 || code=$?
    if [ $code = 132 ]; then  # an instruction that this processor lacks
      printf '%-14s %-8s %-12s %-17s %s\n' "$program" "$(basename "$compiler")" - "(cannot run here)" "$flags"
      continue
    fi
    [ $code = 0 ] || { cat "$work/lines"; echo "hashes: $program ended with $code"; exit 1; }
    ran=$((ran + 1))
    while read -r set hash; do
      [[ $hash =~ ^[0-9a-f]{16}$ ]] || continue
      [ "$program" = kernels_hash ] && key=$program || key=$program/$set
      mark=''
      if [ -z "${seen[$key]:-}" ]; then
        seen[$key]=$hash first[$key]=$cell
      elif [ "${seen[$key]}" != "$hash" ]; then
        mark="  <- differs from $(basename "${first[$key]}")"
        failed=yes
      fi
      printf '%-14s %-8s %-12s %-17s %s\n' "$program" "$(basename "$compiler")" "$set" "$hash" "$flags$mark"
    done <"$work/lines"
  done < <(for compiler in "${compilers[@]}"; do cells_of "$program" "$compiler" | sed "s|^|$compiler |"; done)
  [ $ran -gt 1 ] || { echo "hashes: $program ran $ran times: nothing was compared"; exit 1; }
done
[ -z "$failed" ] || { echo "hashes: equal sets have different bits"; exit 1; }
