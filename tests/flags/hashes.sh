#!/usr/bin/env bash
# hashes.sh [--all] [COMPILER...]: compiles the programs *_hash.cpp of this folder with many flags, runs them, and prints
# the hashes of their bits. Every line that a program prints starts with an instruction set and ends with a hash: equal
# sets must have equal hashes, whatever the compiler, the level and the processor that the code was meant for.
# Exit code 1 if they differ. Without --all: a few cells that have differed, or would first.
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

cells=()  # compiler, flags
case $(uname -m) in
  x86_64) marches=(x86-64 x86-64-v2 x86-64-v3 haswell znver3 x86-64-v4 sapphirerapids native) ;;
  *) marches=(native) ;;
esac
is_clang() { "$1" --version | grep -q clang; }
for compiler in "${compilers[@]}"; do
  if [ -n "$all" ]; then
    for level in -O1 -O2 -O3; do
      for march in "${marches[@]}"; do cells+=("$compiler $level -march=$march"); done
    done
    for march in haswell native; do cells+=("$compiler -O2 -march=x86-64 -mtune=$march" "$compiler -O2 -march=$march -fno-trapping-math"); done
    if is_clang "$compiler"; then
      # No macro tells of these; what they allow is taken back in the source.
      cells+=("$compiler -O3 -march=native -fassociative-math -freciprocal-math -fno-signed-zeros -fno-trapping-math")
    else
      cells+=("$compiler -O3 -march=haswell -ffp-contract=fast" "$compiler -O3 -march=native -fno-tree-slp-vectorize")
    fi
  elif is_clang "$compiler"; then
    for flags in "-O3 -march=x86-64-v2" "-O2 -march=x86-64-v3" "-O3 -march=native"; do cells+=("$compiler $flags"); done
  else
    for flags in "-O2 -march=x86-64" "-O2 -march=haswell" "-O3 -march=znver3" "-O2 -march=x86-64-v4"; do cells+=("$compiler $flags"); done
  fi
done

declare -A seen first
failed=''
printf '%-16s %-10s %-10s %-16s %s\n' program compiler set hash flags
for source in "$here"/*_hash.cpp; do
  program=$(basename "$source" .cpp)
  ran=0
  for cell in "${cells[@]}"; do
    read -r compiler flags <<<"$cell"
    # shellcheck disable=SC2086
    if ! "$compiler" -std=c++20 $flags -I "$include" -pthread "$source" -o "$work/run" -ldl 2>"$work/errors"; then
      grep -qiE "unknown target CPU|bad value|unrecognized" "$work/errors" && continue  # an older compiler
      cat "$work/errors"
      exit 1
    fi
    code=0
    "$work/run" >"$work/lines" 2>&1 || code=$?
    if [ $code = 132 ]; then  # an instruction that this processor lacks
      printf '%-16s %-10s %-10s %-16s %s\n' "$program" "$(basename "$compiler")" - "(cannot run here)" "$flags"
      continue
    fi
    [ $code = 0 ] || { cat "$work/lines"; echo "hashes: $program ended with $code"; exit 1; }
    ran=$((ran + 1))
    while read -r set hash; do
      key=$program/$set
      mark=''
      if [ -z "${seen[$key]:-}" ]; then
        seen[$key]=$hash first[$key]=$cell
      elif [ "${seen[$key]}" != "$hash" ]; then
        mark="  <- differs from $(basename "${first[$key]}")"
        failed=yes
      fi
      printf '%-16s %-10s %-10s %-16s %s\n' "$program" "$(basename "$compiler")" "$set" "$hash" "$flags$mark"
    done <"$work/lines"
  done
  [ $ran -gt 1 ] || { echo "hashes: $program ran $ran times: nothing was compared"; exit 1; }
done
[ -z "$failed" ] || { echo "hashes: equal sets have different bits"; exit 1; }
