#!/bin/bash
# What somebody who comes from verl or OpenRLHF does in the first hour, with the programs of a build:
#   tests/acceptance/new_user.sh [--part commands|bad_input|signals|terminal]... [--count N] [--seed N] [build folder]
#   commands   every published command line of new_user/{verl,openrlhf}.txt trains
#   bad_input  every mistake of new_user/bad_input.txt ends in one line, and leaves the folder of the run as it was
#   signals    runs that are interrupted at random instants lose nothing and end with the same bits (100; --count)
#   terminal   what a terminal of 80 and of 160 columns shows (needs tmux; without it the exit code is 77)
# All parts without --part; everything is written to a temporary folder.
set -euo pipefail
parts=() count='' seed=1 build=build
while [ $# -gt 0 ]; do
  case $1 in
    --part) parts+=("${2:?}"); shift 2 ;;
    --count) count=${2:?}; shift 2 ;;
    --seed) seed=${2:?}; shift 2 ;;
    -*) echo "new_user: unknown option $1 (--part, --count, --seed)" >&2; exit 1 ;;
    *) build=$1; shift ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=(commands bad_input signals terminal)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
reference=${here%/*}/reference
bin=$(cd "$build/bin" && pwd)
[ -x "$bin/grpo_trainer" ] || { echo "new_user: no programs in $bin (make programs)" >&2; exit 1; }
place=$(mktemp -d "${TMPDIR:-/tmp}/new_user.XXXXXX")
trap 'rm -rf "$place"' EXIT
export HOME=$place/home RLCORE_MODEL_DIR=$place/models LC_ALL=C.UTF-8

status=0
fail() { echo "new_user: $*"; status=1; }

# shellcheck source=/dev/null
for name in prepare commands bad_input signals terminal; do source "$here/new_user/$name.sh"; done
for part in "${parts[@]}"; do
  declare -F "part_$part" >/dev/null || { echo "new_user: no part '$part' (commands, bad_input, signals, terminal)" >&2; exit 1; }
done
prepare
for part in "${parts[@]}"; do
  begin=$SECONDS
  "part_$part"
  echo "new_user: $part: $((SECONDS - begin)) s"
done
exit $status
