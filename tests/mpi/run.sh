#!/bin/bash
# run.sh LAUNCHER RANKS CODES OUTPUT PROGRAM [ARGUMENT...]: runs a job, prints its output, and succeeds if it ends soon
# with one of the exit codes (a|b) and with exactly one line of ours, which matches OUTPUT. LAUNCHER is openmpi:<mpirun>,
# hydra:<mpirun>, none (the environment alone), or, with the folder of two_hosts.sh, hosts:<folder> (RANKS on each of two
# hosts, of which the second may have a line of its own) or cut:<folder> (and the cable is cut as soon as the program has
# made the file that MISBEHAVIOUR_STARTED names). "Soon" is before the deadline of any job that is not to end by it.
# Output goes to a file: processes that outlive their job would keep a pipe open.
set -u
launcher=$1 ranks=$2 codes=$3 wanted=$4
shift 4
out=$(mktemp)
export MISBEHAVIOUR_STARTED=$out.started
trap 'rm -f "$out" "$MISBEHAVIOUR_STARTED" "$RLCORE_FLIGHT_FOLDER"/rlcore_rank*_*.flight' EXIT
: "${RLCORE_FLIGHT_FOLDER:=$(dirname "$out")}"

begin=$(date +%s%N)
case $launcher in
openmpi:*)
  timeout -k 2 60 "${launcher#*:}" --allow-run-as-root --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 \
    -np "$ranks" "$@" >"$out" 2>&1 </dev/null
  ;;
hydra:*) timeout -k 2 60 "${launcher#*:}" -np "$ranks" "$@" >"$out" 2>&1 </dev/null ;;
hosts:*) timeout -k 5 60 "${launcher#*:}/two_hosts.sh" -n "$ranks" "$@" >"$out" 2>&1 </dev/null ;;
cut:*)
  timeout -k 5 60 "${launcher#*:}/supervise.sh" -r 0 -k 3 "${launcher#*:}/two_hosts.sh" -n "$ranks" \
    -d "$MISBEHAVIOUR_STARTED" "$@" \
    >"$out" 2>&1 </dev/null
  ;;
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
[ $code -ne 77 ] || exit 77
case "|$codes|" in
*"|$code|"*) ;;
*)
  echo "run.sh: expected exit code $codes"
  exit 1
  ;;
esac
lines=$(grep -aE '^(rlcore|misbehaviour|collectives): |^done|PASSED|FAILED' "$out")
most=1
case $launcher in hosts:* | cut:*) most=2 ;; esac
if [ "$(printf '%s\n' "$lines" | wc -l)" -gt $most ] || ! printf '%s\n' "$lines" | grep -qE "$wanted"; then
  echo "run.sh: expected one line of ours, with: $wanted"
  exit 1
fi
[ "$took" -le 58000 ] || {
  echo "run.sh: expected an end within 58000 ms"
  exit 1
}
