#!/usr/bin/env bash
# What a translation unit costs to compile: user seconds, best of N, per representative file and per named algorithm.
#   bench/compile_time.sh [compiler...]      default: g++ clang++
#   bench/compile_time.sh --build FOLDER     what each target of a build by ninja has cost, and the main headers alone
#   N=3 ONLY=grpo OPTIONS="-O2"              ONLY: units whose name contains it
# "front end" is the share of parsing and instantiating (-fsyntax-only). "of gtest" divides by the time of
# <gtest/gtest.h> alone in the same run: it removes most of the machine and its load.
set -u
cd "$(dirname "$0")/.." || exit 1
N=${N:-3} OPTIONS=${OPTIONS:--O2} ONLY=${ONLY:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
LC_ALL=C TIMEFORMAT=%U

# From the log of ninja: seconds of jobs by target, the slowest objects; of the objects that `make check` needs today, since
# the log remembers all that ever were. A job's seconds are of the clock; with no more jobs than cores they are nearly
# those of a processor. What came out of a compiler cache counts as it took.
if [ "${1:-}" = --build ]; then
  build=${2:?usage: compile_time.sh --build FOLDER}
  [ -e "$build/.ninja_log" ] || { echo "compile_time: $build was not built by ninja, whose log this reads" >&2; exit 1; }
  targets=all
  ! ninja -C "$build" -t query tier_check >/dev/null 2>&1 || targets='tier_test tier_check'
  # shellcheck disable=SC2086
  ninja -C "$build" -t commands $targets | grep -o ' -o [^ ]*\.o ' >"$folder/needed"
  [ -s "$folder/needed" ] || { echo "compile_time: ninja names no object that $build needs" >&2; exit 1; }
  awk 'NR == FNR { needed[$2]; next }
    $4 in needed { cost[$4] = ($2 - $1) / 1000 }
    END {
      for (object in cost) {
        target = object
        if (match(target, /CMakeFiles\/[^\/]*\.dir\//)) target = substr(target, RSTART + 11, RLENGTH - 16)
        sum[target] += cost[object]; ++count[target]; all += cost[object]; ++objects
        print "object", cost[object], object
      }
      for (target in sum) print "target", sum[target], count[target], target
      print "total", all, objects
    }' "$folder/needed" "$build/.ninja_log" >"$folder/costs"
  echo "seconds  objects  target"
  grep ^target "$folder/costs" | sort -k2 -rn | awk '{ printf "%7.1f  %7d  %s\n", $2, $3, $4 }'
  awk '/^total/ { printf "%7.1f  %7d  in all\n", $2, $3 }' "$folder/costs"
  printf '\nseconds  slowest objects\n'
  grep ^object "$folder/costs" | sort -k2 -rn | head -n 10 | awk '{ printf "%7.1f  %s\n", $2, $3 }'
  printf '\nuser s   one header alone, -O2\n'
  compiler=${CXX:-c++}
  for header in rlcore/rlcore.hpp rlcore/losses.hpp rlcore/objective/algorithm/grpo.hpp Eigen/Dense nlohmann/json.hpp; do
    echo "#include <$header>" >"$folder/alone.cpp"
    "$compiler" -std=c++20 -Iinclude -I/usr/include/eigen3 -M "$folder/alone.cpp" >/dev/null 2>&1 || continue
    t=$({ time "$compiler" -std=c++20 -O2 -Iinclude -I/usr/include/eigen3 -c "$folder/alone.cpp" -o "$folder/o"; } 2>&1)
    printf '%7s  %s\n' "$t" "$header"
  done
  exit 0
fi

# unit NAME BUDGET SOURCE: BUDGET in seconds, "-" for none.
names=() budgets=()
unit() {
  [[ $1 = gtest.h || $1 = *"$ONLY"* ]] || return 0
  names+=("$1") budgets+=("$2")
  printf '%s\n' "$3" >"$folder/$((${#names[@]} - 1)).cpp"
}
# algorithm NAME HEADER EXPRESSION [FURTHER COUNTS]: a translation unit that trains with one named algorithm.
algorithm() {
  unit "$1" 3 "#include \"rlcore/exec/serial.hpp\"
#include \"rlcore/objective/algorithm/$2.hpp\"
double f(const rlcore::token_batch<float>& b, const rlcore::global_counts& s, rlcore::token_gradients<float> g) {
  return evaluate(rlcore::serial{}, $3, b, s, ${4:-}g).loss();
}"
}
unit "gtest.h" - '#include <gtest/gtest.h>'
unit "rlcore.hpp" - '#include "rlcore/rlcore.hpp"'
unit "algorithms.hpp" - '#include "rlcore/objective/algorithms.hpp"'
composed='#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
auto f(const rlcore::token_batch<float>& b, const rlcore::global_counts& s, rlcore::token_gradients<float> g) {
  return rlcore::evaluate(rlcore::serial{}, rlcore::sum{rlcore::ppo_clip{}}, rlcore::token_mean{}, b, s, g);
}'
unit "one composed objective" 0.5 "$composed"
unit "the same and Eigen" 1.3 "#include \"rlcore/tensor/eigen.hpp\"
$composed"
algorithm grpo grpo 'rlcore::paper::grpo()'
algorithm dapo dapo 'rlcore::paper::dapo()'
algorithm dr_grpo dr_grpo 'rlcore::paper::dr_grpo()'
algorithm gspo gspo 'rlcore::paper::gspo()'
algorithm gmpo gmpo 'rlcore::paper::gmpo()'
algorithm cispo cispo 'rlcore::paper::cispo()'
algorithm sapo sapo 'rlcore::paper::sapo()'
algorithm ppo ppo 'rlcore::paper::ppo()'
algorithm "ppo of verl" verl 'rlcore::verl::ppo()'
algorithm gpg reinforce 'rlcore::paper::gpg()'
algorithm dppo_kl trust_region 'rlcore::paper::dppo_kl()'
algorithm dro trust_region 'rlcore::paper::dro()'
algorithm dpo dpo 'rlcore::paper::dpo()'
algorithm kto unpaired 'rlcore::paper::kto({.kl = rlcore::kto_baseline(0.1)})'
algorithm simpo reference_free 'rlcore::paper::simpo()'
algorithm orpo reference_free 'rlcore::paper::orpo()' 's, '
unit "gae and whitening" 3 '#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/whitening.hpp"
void f(rlcore::matrix_view<const float> r, rlcore::matrix_view<const float> v, const rlcore::token_mask& m,
       rlcore::matrix_view<float> a, rlcore::matrix_view<float> t) {
  rlcore::gae{}(r, v, m, a, t);
  rlcore::whitening{}(a, m, a);
}'
unit "every policy loss" - '#include "rlcore/train/policy/algorithm/named_algorithm.hpp"
auto f(const rlcore::train::policy_loss_settings& s) { return rlcore::train::algorithm_of(s); }'
unit "kernels of the cpu" - '#include "rlcore/device/cpu.hpp"
const void* f(const char* set) { return &rlcore::cpu_kernels::choose(set); }'
unit "options of main_ppo" - '#include "rlcore/config/options.hpp"
#include "rlcore/config/programs/main_ppo.hpp"
auto f(int n, char** words) { return rlcore::train::options::parse(n, words, rlcore::train::main_ppo_registry()); }'
linked='#define RLCORE_COMPILED
'
for trainer in grpo dapo ppo reinforce_plus_plus dpo kto rm prm sft; do
  unit "${trainer}_trainer" 10 "$linked#include \"examples/${trainer}_trainer.cpp\""
done
unit "quickstart" 12 "$linked#include \"examples/quickstart.cpp\""

# seconds COMPILER FILE OPTION...: the best of N, or "-" with the first error on stderr.
seconds() {
  local compiler=$1 file=$2 best=- t
  shift 2
  for ((k = 0; k < N; ++k)); do
    # shellcheck disable=SC2086
    t=$({ time "$compiler" -std=c++20 $OPTIONS -Iinclude -I. -I/usr/include/eigen3 -Iexamples "$@" "$file" 2>"$folder/error"; } 2>&1)
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
  printf '%s %s\n%-24s %9s %9s %9s %9s\n' "$compiler" "$OPTIONS" "translation unit" "user s" "front end" "of gtest" \
    "budget s"
  unit_of_time=
  for i in "${!names[@]}"; do
    t=$(seconds "$compiler" "$folder/$i.cpp" -c -o "$folder/o")
    front=$(seconds "$compiler" "$folder/$i.cpp" -fsyntax-only)
    [ -n "$unit_of_time" ] || unit_of_time=$t
    awk -v name="${names[i]}" -v t="$t" -v front="$front" -v unit="$unit_of_time" -v budget="${budgets[i]}" 'BEGIN {
      share = t == "-" || front == "-" ? "-" : sprintf("%.0f%%", 100 * front / t)
      ratio = t == "-" || unit == "-" ? "-" : sprintf("%.1f", t / unit)
      over = t != "-" && budget != "-" && t + 0 > budget + 0 ? "  over" : ""
      printf "%-24s %9s %9s %9s %9s%s\n", name, t, share, ratio, budget, over }'
    [ "$t" = - ] && status=1
  done
done
exit "$status"
