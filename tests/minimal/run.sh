#!/bin/bash
# run.sh EXPECTED COMMAND...: runs a program of examples/minimal, prints its output and compares it with EXPECTED:
#   bytes REFERENCE...  that of the command REFERENCE, to the byte
#   near REFERENCE...   its first three lines: the first reward within 0.05 of the command's and the first gradient norm
#                       within 0.1, the other rewards within 0.15; then it is stopped
#   WORD > NUMBER       the number behind WORD in the last line is above (<: below) NUMBER
set -u
read -ra expected <<<"$1"
shift
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
if [ "${expected[0]}" = near ]; then
  : >"$out/got"  # the loop may look before the program's own redirection has made it
  stdbuf -oL "$@" >"$out/got" 2>"$out/errors" </dev/null &
  while [ $SECONDS -lt 250 ] && kill -0 $! 2>/dev/null && [ "$(wc -l <"$out/got")" -lt 3 ]; do sleep 0.2; done
  kill $! 2>/dev/null
  wait $! 2>/dev/null
  code=0
else
  timeout -k 2 250 "$@" >"$out/got" 2>"$out/errors" </dev/null
  code=$?
fi
cat "$out/got" "$out/errors"
[ $code -eq 0 ] || { echo "run.sh: exit code $code"; exit 1; }
case ${expected[0]} in
bytes | near)
  "${expected[@]:1}" >"$out/wanted" || { echo "run.sh: ${expected[*]:1} failed"; exit 1; }
  ;;&
bytes)
  diff "$out/wanted" "$out/got" || { echo "run.sh: expected the bytes of ${expected[*]:1}"; exit 1; }
  ;;
near)
  # Lines differ in numbers alone: `step N  reward R  gradient norm G`.
  paste <(head -n 3 "$out/wanted") <(head -n 3 "$out/got") | awk '
    function apart(a, b) { return a > b ? a - b : b - a }
    $1 != "step" || $8 != "step" || $2 != $9 || apart($4, $11) > (NR == 1 ? 0.05 : 0.15) { bad = 1 }
    NR == 1 && apart($7, $14) > 0.1 { bad = 1 }
    END { if (bad || NR != 3) { print "run.sh: the first three lines are not near"; exit 1 } }'
  ;;
*)
  awk -v word="${expected[0]}" -v relation="${expected[1]}" -v bound="${expected[2]}" '
    { value = ""; for (i = 1; i < NF; ++i) if ($i == word) value = $(i + 1) }
    END {
      if (value != "" && (relation == ">" ? value + 0 > bound : value + 0 < bound)) exit 0
      print "run.sh: the last line has " word " " value ", expected it " relation " " bound
      exit 1
    }' "$out/got"
  ;;
esac
