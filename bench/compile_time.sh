#!/usr/bin/env bash
# What a translation unit costs to compile: user seconds, best of N, per representative file.
#   bench/compile_time.sh [compiler...]      N=3 OPTIONS="-O3 -march=native"      default: g++ clang++
# "of gtest" divides by the time of <gtest/gtest.h> alone in the same run: it removes most of the machine and its load.
set -u
cd "$(dirname "$0")/.." || exit 1
N=${N:-3} OPTIONS=${OPTIONS:--O3 -march=native}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
LC_ALL=C TIMEFORMAT=%U

# unit NAME BUDGET SOURCE: BUDGET in seconds, "-" for none.
names=() budgets=()
unit() {
  names+=("$1") budgets+=("$2")
  printf '%s\n' "$3" >"$folder/$((${#names[@]} - 1)).cpp"
}
use_objective='auto f(const rlcore::token_batch<float>& b, const rlcore::global_counts& s, rlcore::token_gradients<float> g) {
  return rlcore::evaluate(rlcore::serial{}, rlcore::sum{rlcore::clipped_ratio{}}, rlcore::token_mean{}, b, s, g);
}'
objective_headers='#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation/token_mean.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/surrogate/clipped_ratio.hpp"'
unit "gtest.h" - '#include <gtest/gtest.h>'
unit "rlcore.hpp" - '#include "rlcore/rlcore.hpp"'
unit "one composed objective" 0.5 "$objective_headers
$use_objective"
unit "the same and Eigen" 1.3 "#include \"rlcore/tensor/eigen.hpp\"
$objective_headers
$use_objective"
unit "verl_policy_loss" - '#include "rlcore/objective/algorithm/verl_policy_loss.hpp"
auto f(const rlcore::verl_policy_loss& l, const rlcore::policy_rows& r, const rlcore::global_counts& s,
       std::span<float> g) {
  return l(r, s, g);
}'
unit "kernels of the cpu" - '#include "rlcore/device/cpu.hpp"
const void* f(const char* set) { return &rlcore::cpu_kernels::choose(set); }'
unit "options of main_ppo" - '#include "rlcore/trainer/options.hpp"
#include "rlcore/trainer/registry/main_ppo.hpp"
auto f(int n, char** words) { return rlcore::trainer::options::parse(n, words, rlcore::trainer::main_ppo_registry()); }'
unit "grpo_trainer" 20 '#include "examples/grpo_trainer.cpp"'
unit "quickstart" 20 '#include "examples/quickstart.cpp"'

# seconds COMPILER FILE: the best of N, or "-" with the first error on stderr.
seconds() {
  local best=- t
  for ((k = 0; k < N; ++k)); do
    # shellcheck disable=SC2086
    t=$({ time "$1" -std=c++20 $OPTIONS -Iinclude -I. -I/usr/include/eigen3 -Iexamples -c "$2" -o "$folder/o" 2>"$folder/error"; } 2>&1)
    if [ -s "$folder/error" ] && grep -q 'error:' "$folder/error"; then
      grep -m1 'error:' "$folder/error" >&2
      echo - && return
    fi
    best=$(awk -v a="$best" -v b="$t" 'BEGIN { print a == "-" || b < a ? b : a }')
  done
  echo "$best"
}

status=0
[ $# -gt 0 ] || set -- g++ clang++
for compiler in "$@"; do
  command -v "$compiler" >/dev/null || continue
  printf '%s %s\n%-24s %9s %9s %9s\n' "$compiler" "$OPTIONS" "translation unit" "user s" "of gtest" "budget s"
  unit_of_time=
  for i in "${!names[@]}"; do
    t=$(seconds "$compiler" "$folder/$i.cpp")
    [ -n "$unit_of_time" ] || unit_of_time=$t
    ratio=$(awk -v a="$t" -v b="$unit_of_time" 'BEGIN { if (a == "-" || b == "-") print "-"; else printf "%.1f", a / b }')
    printf '%-24s %9s %9s %9s%s\n' "${names[i]}" "$t" "$ratio" "${budgets[i]}" \
      "$(awk -v a="$t" -v b="${budgets[i]}" 'BEGIN { if (a != "-" && b != "-" && a + 0 > b + 0) print "  over" }')"
    [ "$t" = - ] && status=1
  done
done
exit "$status"
