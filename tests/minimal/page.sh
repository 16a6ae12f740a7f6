#!/bin/bash
# page.sh PAGE PROGRAM: the blocks of C++ of PAGE, one after the other, are PROGRAM. Blank lines do not count.
set -u
blocks=$(awk '/^```c\+\+/ { inside = 1; next } /^```/ { inside = 0 } inside && NF' "$1")
diff <(echo "$blocks") <(grep -v '^$' "$2") || { echo "page.sh: the blocks of $1 (<) are not $2 (>)"; exit 1; }
