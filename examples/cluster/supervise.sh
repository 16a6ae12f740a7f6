#!/bin/bash
# supervise.sh [-r RESTARTS] [-n RANKS,RANKS,...] [-k SECONDS] COMMAND...: runs a job and starts it again, at most RESTARTS times (10),
# as long as it ends in a way that a new start can mend: exit code 75 (a rank waited in vain, or another vanished), 134,
# 137 and 139 (a rank aborted, was killed, or crashed; 6, 9 and 11 with MPICH's mpirun). With trainer.resume_mode=auto,
# the default, a trainer goes on from its last checkpoint, whatever the number of ranks was: in COMMAND, {ranks} stands
# for the first of the numbers of -n at first, the second after the first failure, and so on; the last one stays.
#
#   supervise.sh -n 16,14,12 mpirun -np {ranks} --hostfile hostfile build/bin/grpo_trainer trainer.save_freq=20 ...
#
# An mpirun that does not end although its ranks have (the network to a host is gone, say) is killed after SECONDS (15).
set -u
restarts=10 ranks='' patience=15
while getopts r:n:k: option; do
  case $option in
  r) restarts=$OPTARG ;;
  n) ranks=$OPTARG ;;
  k) patience=$OPTARG ;;
  *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || { echo 'usage: supervise.sh [-r RESTARTS] [-n RANKS,RANKS,...] [-k SECONDS] COMMAND...' >&2; exit 2; }
IFS=, read -ra numbers <<<"$ranks"

# Ranks that end because of others leave a file here.
RLCORE_FLIGHT_FOLDER=$(mktemp -d "${TMPDIR:-/tmp}/supervise.XXXXXX")
export RLCORE_FLIGHT_FOLDER
job=''
stop() {
  trap - EXIT INT TERM
  [ -z "$job" ] || kill -TERM -- "-$job" 2>/dev/null
  rm -rf "$RLCORE_FLIGHT_FOLDER"
}
trap stop EXIT
trap 'exit 130' INT TERM

for ((attempt = 0; ; ++attempt)); do
  command=("$@")
  if [ ${#numbers[@]} -gt 0 ]; then
    at=$((attempt < ${#numbers[@]} ? attempt : ${#numbers[@]} - 1))
    command=("${command[@]//\{ranks\}/${numbers[at]}}")
  fi
  setsid "${command[@]}" &
  job=$!
  left=''
  while kill -0 "$job" 2>/dev/null; do
    sleep 0.5 &
    wait -n "$job" $! 2>/dev/null
    if [ -z "$left" ] && [ -n "$(ls "$RLCORE_FLIGHT_FOLDER")" ]; then left=$SECONDS; fi
    if [ -n "$left" ] && [ $((SECONDS - left)) -ge "$patience" ]; then
      echo 'supervise.sh: the ranks have ended, their launcher has not: it is killed' >&2
      kill -TERM -- "-$job" 2>/dev/null
      sleep 5
      kill -KILL -- "-$job" 2>/dev/null
      break
    fi
  done
  { wait "$job"; } 2>/dev/null
  code=$?
  job=''
  if [ -n "$left" ]; then case $code in 130 | 137 | 143) code=75 ;; esac; fi
  for file in "$RLCORE_FLIGHT_FOLDER"/*.flight; do
    [ ! -e "$file" ] || { echo "supervise.sh: $(basename "$file"):" >&2; tail -n 3 "$file" >&2; rm -f "$file"; }
  done
  case $code in
  75 | 134 | 137 | 139 | 6 | 9 | 11) ;;
  *) exit $code ;;
  esac
  if [ "$attempt" -ge "$restarts" ]; then
    echo "supervise.sh: exit code $code after $restarts restarts" >&2
    exit $code
  fi
  echo "supervise.sh: exit code $code: restart $((attempt + 1)) of $restarts" >&2
  sleep 1
done
