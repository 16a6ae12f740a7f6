#!/bin/bash
# run.sh OUT SECONDS [NAME...]: `make fuzz`. Builds the fuzzers with clang's libFuzzer, ASan and UBSan into OUT and runs
# each for so many seconds, or for $RUNS inputs of up to 8 KiB, one on each core; what they learn stays in
# OUT/corpus/NAME. An input that fails is left in OUT/failed: mend the reader, add the input to seeds/NAME, and
# `make check` keeps it so.
set -uo pipefail
out=$1 seconds=$2
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if ! echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
  clang++ -fsanitize=fuzzer,address -x c++ - -o /dev/null 2>/dev/null; then
  echo "fuzz: this needs clang++ with libFuzzer (Debian packages clang libclang-rt-14-dev); 'make check' runs the same" \
    "fuzzers for a second each without" >&2
  exit 1
fi
mkdir -p "$out/failed"
out=$(cd "$out" && pwd)
wheel=("$here"/../../build/venv/lib/python3*/site-packages/pyarrow)
export CXX=clang++ LIB_FUZZING_ENGINE=-fsanitize=fuzzer OUT=$out ONLY="$*" RLCORE_PYARROW=${RLCORE_PYARROW:-${wheel[0]}}
export CXXFLAGS='-O2 -g -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow -fno-sanitize-recover=all'
[ -d "$RLCORE_PYARROW" ] || unset RLCORE_PYARROW
"$here/build.sh" || exit

# Quick: where memory was allocated is not kept, so run the input that fails once more without that. Arrow takes its
# memory where ASan sees it.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=0:malloc_context_size=1:quarantine_size_mb=16}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1} ARROW_DEFAULT_MEMORY_POOL=system
limits=("-max_total_time=$seconds" -max_len=65536)
[ -z "${RUNS:-}" ] || limits=("-runs=$RUNS" -max_len=8192)
# fuzz FUZZER: one of them, with its log and its line.
fuzz() {
  local name dictionary=() limits=("${limits[@]}")
  name=$(basename "$1" _fuzzer)
  # A page may announce 2 GiB, which Arrow takes and does not touch.
  [ "$name" != parquet ] || limits+=(-malloc_limit_mb=4096)
  mkdir -p "$out/corpus/$name"
  [ ! -e "$1.dict" ] || dictionary=("-dict=$1.dict")
  if "$1" "$out/corpus/$name" "$here/seeds/$name" "${dictionary[@]}" "${limits[@]}" \
    -timeout=20 -rss_limit_mb=2048 "-artifact_prefix=$out/failed/${name}_" -print_final_stats=1 >"$out/$name.log" 2>&1; then
    echo "fuzz: $name: $(sed -n 's/^stat::number_of_executed_units: *//p' "$out/$name.log") inputs"
  else
    echo "fuzz: $name FAILED, see $out/$name.log:"
    grep -aE '^fuzzing:|ERROR|runtime error|Test unit written' "$out/$name.log" | cut -c1-300
    return 1
  fi
}
status=0 running=0 cores=$(nproc)
for fuzzer in "$out"/*_fuzzer; do
  [ $# = 0 ] || [[ " $* " = *" $(basename "$fuzzer" _fuzzer) "* ]] || continue
  if [ $running = "$cores" ]; then
    wait -n || status=1
    running=$((running - 1))
  fi
  fuzz "$fuzzer" &
  running=$((running + 1))
done
for ((; running > 0; --running)); do wait -n || status=1; done
exit $status
