#!/bin/bash
# Every block of commands (```sh) of one page, run as it stands, with stand_in.sh in the place of the programs.
#   run.sh PAGE       in an empty folder; RLCORE_ROOT, RLCORE_BUILD: the sources and the build; RLCORE_TASK: a folder
#                     with model/, train.jsonl, test.jsonl, sft.jsonl, raw.jsonl and solutions.jsonl
# Fails with the page and the number of the block. Commands outside of such blocks are a failure too.
set -euo pipefail
page=$1
place=$PWD
export RLCORE_PATH=$PATH HOME=$place/home RLCORE_MODEL_DIR=$place/models SOURCE_DATE_EPOCH=0
here=$RLCORE_ROOT/tests/commands

# Programs, by their paths and by their names alone.
stand_in() { mkdir -p "$(dirname "$1")" && ln -s "$here/stand_in.sh" "$1"; }
for source in "$RLCORE_ROOT"/examples/{,tools/,npu/}*.cpp; do
  name=$(basename "$source" .cpp)
  stand_in "build/bin/$name"
done
for name in catalogue_bench words_bench parallel_bench speed_bench minimal_grpo npu_abi_check; do stand_in "build/bin/$name"; done
for name in test_programs test_nn; do stand_in "build/tests/$name"; done
for name in make cmake ctest pip python python3 tensorboard tar sbatch mpirun curl; do stand_in "on_path/$name"; done
for file in bench/speed.py bench/tool_latency.py bench/compile_time.sh tests/flags/hashes.sh tests/acceptance/real.py examples/cluster/supervise.sh \
  examples/cluster/two_hosts.sh; do
  stand_in "$file"
done
export PATH=$place/on_path:$place/build/bin:$PATH

# The files that the pages take for granted.
ln -s "$RLCORE_ROOT/include" include
mkdir -p examples
ln -s "$RLCORE_ROOT/examples/minimal" examples/minimal
mkdir -p home/data home/models models/Qwen tiny path/to
ln -s "$RLCORE_TASK/model" MODEL
for name in SFT TOKENIZER tokenizer Qwen2.5-0.5B-Instruct models/Qwen/Qwen2.5-0.5B-Instruct models/sft home/models/sft \
  models/rpp; do
  cp -r "$RLCORE_TASK/model" "$name"
done
cp "$RLCORE_TASK"/*.jsonl .
cp solutions.jsonl example_model_solutions.jsonl
cp MODEL/config.json tiny/config.json
cp MODEL/config.json path/to/config.json
for folder in grade-school-math/grade_school_math/data grade_school_math/data; do
  mkdir -p "$folder"
  cp raw.jsonl "$folder/train.jsonl"
  cp raw.jsonl "$folder/test.jsonl"
done
export RLCORE_PARQUET=1
build/bin/gsm8k_preprocess --input_dir grade_school_math/data --local_save_dir home/data/gsm8k 2>/dev/null
[ -e home/data/gsm8k/train.parquet ] || RLCORE_PARQUET=0
build/bin/gsm8k_preprocess --input_dir grade_school_math/data --local_save_dir home/data/gsm8k --format jsonl 2>/dev/null
cp home/data/gsm8k/*.parquet . 2>/dev/null || true
touch TRAIN.parquet hostfile hosts drawn.png speed.json catalogue.json report.tar.gz
"$RLCORE_BUILD/bin/gsm8k_solutions" --input solutions.jsonl --local_save_dir home/data/pairs >/dev/null
echo '{"like": "H100"}' >cluster.json
mkdir -p runs/quickstart/data
cp train.jsonl test.jsonl runs/quickstart/data
cp -r MODEL/ runs/quickstart/model
text=$(<"$RLCORE_ROOT/$page")
# A checkpoint, where the page names one.
checkpoint() {  # checkpoint RUN STEP KEYS...
  local run=$1 step=$2
  shift 2
  build/bin/grpo_trainer ... "trainer.default_local_dir=$run" trainer.save_freq=1 "$@" 2>/dev/null
  mv "$run/global_step_1" "$run/global_step_$step"
}
case $text in *checkpoints/p/e/global_step_50*) checkpoint checkpoints/p/e 50 ;; esac
case $text in *checkpoints/gsm8k/grpo/global_step_10*) checkpoint checkpoints/gsm8k/grpo 10 ;; esac
case $text in *runs/a/global_step_58*) checkpoint runs/a 58 actor_rollout_ref.model.lora_rank=2 ;; esac
case $text in *full/global_step_150*)
  mkdir -p full/global_step_150
  cp -r MODEL/ full/global_step_150/huggingface
  ;;
esac
case $text in *'compare_runs runs/npu runs/cpu'*)
  build/bin/grpo_trainer ... trainer.default_local_dir=runs/cpu 2>/dev/null
  build/bin/grpo_trainer ... trainer.default_local_dir=runs/npu 2>/dev/null
  # A random model earns nothing, and compare_runs says so with exit code 2.
  sed -i -E 's#"(critic/rewards/mean|actor/pg_loss)":[^,}]*#"\1":0.5#g' runs/cpu/metrics.jsonl runs/npu/metrics.jsonl
  ;;
esac

status=0
awk -v page="$page" '
  /^```sh$/ { inside = 1; file = sprintf("block_%d", ++blocks); printf "" > file; next }
  /^```/ { inside = 0; other = !other; next }
  inside { print > file; next }
  /^(    )?(\$ )?(build\/(bin|tests)\/|mpirun |make [a-z]|cmake -|ctest |pip install |python3? [a-z]|bench\/)/ {
    print "commands: " page ":" FNR ": a command outside of a ```sh block: " $0; failed = 1
  }
  END { exit failed }' "$RLCORE_ROOT/$page" || status=1
number=1
while [ -e "block_$number" ]; do
  if ! bash -euo pipefail "block_$number" </dev/null >"block_$number.out" 2>"block_$number.err"; then
    echo "commands: block $number of $page fails:"
    tail -n 4 "block_$number.err"
    status=1
  fi
  number=$((number + 1))
done
exit $status
