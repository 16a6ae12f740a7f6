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
      printf '%s\n' "-O3 -march=haswell -ffp-contract=fast" "-O3 -march=native -fno-tree-slp-vectorize" \
        "-O3 -march=native -include $here/fast_math_pragma.hpp"
    fi
  elif [ "$(uname -m)" != x86_64 ]; then
    printf '%s\n' "-O2" "-O3 -march=native"
  elif [ "$1" = losses_hash ]; then
    if is_clang "$2"; then
      printf '%s\n' "-O2 -march=x86-64-v3" "-O3 -march=native"
    else
      printf '%s\n' "-O2 -march=x86-64" "-O3 -march=znver3" "-O2 -march=x86-64-v4" \
        "-O2 -march=sandybridge -include $here/fast_math_pragma.hpp"
    fi
  elif is_clang "$2"; then
    echo "-O1 -march=x86-64-v3"
  elif [ "$1" = kernels_hash ]; then
    echo "-O1 -march=x86-64"
  else
    echo "-O2 -march=znver3"
  fi
}

# cell NUMBER COMPILER SOURCE FLAGS: builds and runs one cell; leaves its lines, and its exit code: 132 is an instruction
# that this processor lacks, 77 a name that this compiler does not know.
cell() {
  local place=$work/$1 code=0
  # shellcheck disable=SC2086
  if "$2" -std=c++20 $4 -I "$include" -I "$here/.." -pthread "$3" -o "$place.run" -ldl 2>"$place.lines"; then
    "$place.run" >"$place.lines" 2>&1 || code=$?
    rm -f "$place.run"
  else
    code=1
    if grep -qiE "unknown target CPU|bad value|unrecognized" "$place.lines"; then code=77; fi
  fi
  echo $code >"$place.code"
}

programs=("$here"/losses_hash.cpp "$here"/kernels_hash.cpp "$here"/../aarch64/small_trainer.cpp)
cells=()
for source in "${programs[@]}"; do
  for compiler in "${compilers[@]}"; do
    while read -r flags; do cells+=("$compiler|$source|$flags"); done < <(cells_of "$(basename "$source" .cpp)" "$compiler")
  done
done
for number in "${!cells[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
  IFS='|' read -r compiler source flags <<<"${cells[number]}"
  cell "$number" "$compiler" "$source" "$flags" &
done
wait

declare -A seen first ran
failed=''
printf '%-14s %-8s %-12s %-17s %s\n' program compiler set hash flags
for number in "${!cells[@]}"; do
  IFS='|' read -r compiler source flags <<<"${cells[number]}"
  program=$(basename "$source" .cpp) compiler=$(basename "$compiler")
  case $(cat "$work/$number.code") in
    0) ;;
    77) continue ;;
    132)
      printf '%-14s %-8s %-12s %-17s %s\n' "$program" "$compiler" - "(cannot run here)" "$flags"
      continue
      ;;
    *)
      cat "$work/$number.lines"
      echo "hashes: $program of $compiler $flags ended with $(cat "$work/$number.code")"
      exit 1
      ;;
  esac
  ran[$program]=$((${ran[$program]:-0} + 1))
  while read -r set hash; do
    [[ $hash =~ ^[0-9a-f]{16}$ ]] || continue
    [ "$program" = kernels_hash ] && key=$program || key=$program/$set
    mark=''
    if [ -z "${seen[$key]:-}" ]; then
      seen[$key]=$hash first[$key]="$compiler $flags"
    elif [ "${seen[$key]}" != "$hash" ]; then
      mark="  <- differs from ${first[$key]}"
      failed=yes
    fi
    printf '%-14s %-8s %-12s %-17s %s\n' "$program" "$compiler" "$set" "$hash" "${flags//$here\//}$mark"
  done <"$work/$number.lines"
done
for source in "${programs[@]}"; do
  program=$(basename "$source" .cpp)
  [ "${ran[$program]:-0}" -gt 1 ] || { echo "hashes: $program ran ${ran[$program]:-0} times: nothing was compared"; exit 1; }
done
[ -z "$failed" ] || { echo "hashes: equal sets have different bits"; exit 1; }
