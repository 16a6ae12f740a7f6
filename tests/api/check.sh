#!/bin/sh
# Doxygen writes the reference without a warning, refuses what deserves one, and names no path of this machine.
#   check.sh ROOT WORK
set -eu
root=$1 work=$2/reference
command -v doxygen >/dev/null || { echo "api: skipped: that needs doxygen (Debian package doxygen)"; exit 77; }
cd "$root"
root=$(pwd)
rm -rf "$work"
mkdir -p "$work/pages" "$work/refused"

RLCORE_API_DIR="$work/pages" doxygen docs/Doxyfile
status=0
for page in index namespacerlcore structrlcore_1_1ppo__clip; do
  [ -s "$work/pages/$page.html" ] || { echo "api: $page.html is missing"; status=1; }
done
if ! grep -q 'Schulman et al' "$work/pages/structrlcore_1_1ppo__clip.html"; then
  echo 'api: ppo_clip has no comment'
  status=1
fi
if grep -rlF "$root" "$work/pages"; then
  echo 'api: these pages name the folder that they were made in'
  status=1
fi
if find "$work/pages" -name 'namespacerlcore*detail*' | grep .; then
  echo 'api: detail is no part of the reference'
  status=1
fi

printf '/** \\nosuchcommand */\nstruct a {};\n' > "$work/refused/a.hpp"
if { cat docs/Doxyfile; echo "INPUT = $work/refused"; echo 'USE_MDFILE_AS_MAINPAGE ='; } |
  RLCORE_API_DIR="$work/refused" doxygen - 2>/dev/null; then
  echo 'api: an unknown command in a comment was let pass'
  status=1
fi
exit $status
