#!/bin/bash
# run.sh LAUNCHER RANKS CODES OUTPUT PROGRAM [ARGUMENT...]: runs a job, prints its output, and succeeds if it ends in 10 s
# (30 s where its own deadline or the number of its ranks makes it longer) with one of the exit codes and with exactly
# one line of ours that matches OUTPUT. LAUNCHER is openmpi:<mpirun>, hydra:<mpirun> or none (environment alone).
# Output goes to a file: processes that outlive their job would keep a pipe open.
set -u
launcher=$1 ranks=$2 codes=$3 wanted=$4
shift 4
out=$(mktemp)
trap 'rm -f "$out" "$RLCORE_FLIGHT_FOLDER"/rlcore_rank*_*.flight' EXIT
: "${RLCORE_FLIGHT_FOLDER:=$(dirname "$out")}"

begin=$(date +%s%N)
case $launcher in
openmpi:*)
  timeout -k 2 60 "${launcher#*:}" --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 \
    -np "$ranks" "$@" >"$out" 2>&1 </dev/null
  ;;
hydra:*) timeout -k 2 60 "${launcher#*:}" -np "$ranks" "$@" >"$out" 2>&1 </dev/null ;;
none) OMPI_COMM_WORLD_SIZE=$ranks "$@" >"$out" 2>&1 </dev/null ;;
*)
  echo "run.sh: what is $launcher?"
  exit 2
  ;;
esac
code=$?
took=$((($(date +%s%N) - begin) / 1000000))
cat "$out"
echo "run.sh: exit code $code after $took ms"
case "|$codes|" in
*"|$code|"*) ;;
*)
  echo "run.sh: expected exit code $codes"
  exit 1
  ;;
esac
lines=$(grep -aE '^(rlcore|misbehaviour|collectives): |^done|PASSED|FAILED' "$out")
if [ "$(printf '%s\n' "$lines" | wc -l)" -ne 1 ] || ! printf '%s\n' "$lines" | grep -qE "$wanted"; then
  echo "run.sh: expected one line of ours, with: $wanted"
  exit 1
fi
limit=10000
case $(basename "$1") in *collectives) limit=50000 ;; esac
[ "$took" -le "$limit" ] || {
  echo "run.sh: expected an end within $limit ms"
  exit 1
}
