#!/bin/bash
# page.sh PAGE PROGRAM [part]: the blocks of C++ of PAGE, one after the other, are PROGRAM, or neighbouring lines of it.
# Blank lines and the depth of a part do not count.
set -u
blocks=$(awk '/^```c\+\+/ { inside = 1; next } /^```/ { inside = 0 } inside && NF' "$1")
program=$(grep -v '^$' "$2")
if [ "${3-}" = part ]; then
  blocks=$(sed 's/^ *//' <<<"$blocks")
  program=$(sed 's/^ *//' <<<"$program")
  [[ -n $blocks && $program == *"$blocks"* ]] || { echo "page.sh: the blocks of $1 are not lines of $2"; exit 1; }
else
  diff <(echo "$blocks") <(echo "$program") || { echo "page.sh: the blocks of $1 (<) are not $2 (>)"; exit 1; }
fi
