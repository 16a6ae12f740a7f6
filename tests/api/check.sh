#!/bin/sh
# Doxygen writes the reference without a warning, refuses what deserves one, and names no path of this machine. Every public
# function and type has a comment, but for what undocumented.txt lets pass.
#   check.sh ROOT WORK
set -eu
root=$1 work=$2/reference
command -v doxygen >/dev/null || { echo "api: skipped: that needs doxygen (Debian package doxygen)"; exit 77; }
cd "$root"
root=$(pwd)
rm -rf "$work"
mkdir -p "$work/pages" "$work/refused" "$work/namespaces"

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

# Doxygen misses comments only inside of a namespace that has one, so each gets one here.
for page in "$work"/pages/namespacerlcore*.html; do
  basename "$page" .html | sed 's/^namespace//; s/_1_1/::/g; s/__/_/g; s|.*|/** \\namespace &\n * The namespace &. */|'
done >"$work/namespaces/namespaces.dox"
# warn FOLDER...: the warnings for what lies there, those about missing comments included.
warn() {
  { cat docs/Doxyfile; echo "INPUT = $*"; echo 'FILE_PATTERNS = *.hpp *.dox'; echo 'USE_MDFILE_AS_MAINPAGE ='
    echo 'EXTRACT_ALL = NO'; echo 'WARN_IF_UNDOCUMENTED = YES'; echo 'WARN_AS_ERROR = NO'
    echo 'GENERATE_HTML = NO'; echo 'GENERATE_XML = YES'; echo 'XML_PROGRAMLISTING = NO'; } |
    RLCORE_API_DIR="$work/refused" doxygen - 2>&1 | sort -u
}
grep -v '^#' tests/api/undocumented.txt >"$work/let_pass"
warn include/rlcore "$work/namespaces" >"$work/warnings"
if grep -vEf "$work/let_pass" "$work/warnings"; then
  echo 'api: these have no comment: what they do, their shapes, what they throw'
  status=1
fi
# Nothing is let pass in vain.
while read -r pattern; do
  grep -qE -- "$pattern" "$work/warnings" || { echo "api: undocumented.txt: '$pattern' lets nothing pass"; status=1; }
done <"$work/let_pass"

printf '/** \\nosuchcommand */\nstruct a {\n  void b(int);\n};\n' >"$work/refused/a.hpp"
warn "$work/refused" >"$work/warnings"
grep -q 'nosuchcommand' "$work/warnings" || { echo 'api: an unknown command in a comment was let pass'; status=1; }
grep -q 'Member b(int) (function) of struct a is not documented' "$work/warnings" || { echo 'api: a function without a comment was let pass'; status=1; }
exit $status
