#!/bin/bash
# container.sh: follows the Containerfile without a container engine. Every stage is a bare system of its own, in which
# COPY and RUN happen as they stand there; between the stages lies only what is copied from one to the next. Then the
# last stage runs its entry point, for ten steps, and tests/bare/packages.sh. Exit code 77 where no such system can be made.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
RLCORE_BARE_SHARE=$(mktemp -d)
export RLCORE_BARE_SHARE
trap 'rm -rf "$RLCORE_BARE_SHARE"' EXIT

# One script for each stage. The projects's sources are where run.sh puts them; what a later stage copies goes to /share.
awk -v folder="$RLCORE_BARE_SHARE" '
  function words(list) { gsub(/^\[|\]$/, "", list); gsub(/", *"/, "\" \"", list); return list }
  /^#/ || NF == 0 { next }
  $1 == "FROM" { script = folder "/stage" ++stages ".sh"; name[$4] = script
                 print "set -euxo pipefail; sources=$PWD; cd /" > script; next }
  $1 == "WORKDIR" { print "mkdir -p " $2 "; cd " $2 > script; next }
  $1 == "COPY" && $2 ~ /^--from=/ { from = substr($2, 8)
                 print "mkdir -p /share/copied; cp " $3 " /share/copied" > name[from]
                 print "mkdir -p " $4 "; cp /share/copied/* " $4 > script; next }
  $1 == "COPY" { print "mkdir -p " $3 "; cp -a \"$sources\"/" $2 " " $3 > script; next }
  $1 == "RUN" { print substr($0, 5) > script; next }
  $1 == "ENTRYPOINT" { entry = words(substr($0, 12)); next }
  $1 == "CMD" { print entry, words(substr($0, 5)), "trainer.total_training_steps=10" > script; next }
  { print "container: what is " $1 "?" > "/dev/stderr"; exit 1 }
  END { print "bash \"$sources\"/tests/bare/packages.sh" > script; print stages > (folder "/stages") }' Containerfile
for ((stage = 1; stage <= $(cat "$RLCORE_BARE_SHARE/stages"); ++stage)); do
  echo "container: stage $stage"
  tests/bare/run.sh bash "/share/stage$stage.sh"
done
