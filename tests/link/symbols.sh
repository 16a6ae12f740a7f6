#!/usr/bin/env bash
# symbols.sh OBJDUMP OBJECT: names the functions of rlcore in OBJECT, compiled for AVX, that have AVX instructions and no
# instruction set in their name. The object's own functions (link_native) are left out: nobody else has them. So are
# those of the standard library, which are not ours to name.
set -euo pipefail
found=$("$1" -d -C --no-show-raw-insn "$2" |
  awk '/^[0-9a-f]+ <.*>:$/ { name = $0 } /[ \t]v[a-z0-9]+ / { total++; if (name != last) { print name; last = name } }
       END { if (total == 0) print "no AVX instruction at all: was it compiled for an old processor?" }' |
  sed 's/^[0-9a-f]* //' | grep -vE '::(avx2|avx512)[A-Za-z_]*::|^<std::|^<link_native' || true)
[ -z "$found" ] || { printf 'compiled for one instruction set, shared by all:\n%s\n' "$found"; exit 1; }
