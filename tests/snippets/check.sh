#!/bin/sh
# Every block of C++ in README.md and docs/ compiles.
#   check.sh ROOT WORK COMPILER FLAGS...    with SNIPPETS="losses trainers", the files of this folder to be compiled
# FLAGS are include folders and definitions. A block that no file names is a failure, so is a name without a block.
set -eu
root=$1 work=$2 compiler=$3
shift 3
mkdir -p "$work"
cd "$root"
: > "$work/met"
status=0
for name in losses trainers; do
  awk -v met="$work/met" -f tests/snippets/complete.awk "tests/snippets/$name.cpp" > "$work/$name.cpp" || status=1
  case " $SNIPPETS " in *" $name "*) ;; *) echo "snippets: $name.cpp is not compiled here"; continue ;; esac
  # Programs with trainers link rlcore::trainers, which defines this.
  compiled=
  [ "$name" = losses ] || compiled=-DRLCORE_COMPILED
  "$compiler" -std=c++20 -O0 -fsyntax-only $compiled -Wall -Wextra -Wno-unused-variable -Wno-unused-function \
    -Wno-unused-parameter -Wno-missing-field-initializers -Wno-return-type -Werror "$@" "$work/$name.cpp" || status=1
done
for page in README.md docs/*.md; do
  blocks=$(grep -c '^```cpp' "$page" || true)
  number=1
  while [ "$number" -le "$blocks" ]; do
    grep -qx "$page $number" "$work/met" || { echo "snippets: block $number of $page is in no file of tests/snippets"; status=1; }
    number=$((number + 1))
  done
done
exit $status
