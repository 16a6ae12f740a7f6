# Sourced by new_user.sh: runs that SIGINT, SIGTERM and SIGKILL meet at random instants, one to three times each. What is
# on disk then is whole, nothing that was measured is lost, and the same command ends with the bits of a run that nobody
# disturbed.

# trainer KIND FOLDER SAVES [DATA MODEL]: what is run, in the array `run`: 12 steps of milliseconds, a checkpoint every
# SAVES of them.
trainer() {
  local data=${4:-$reference/first_steps} model=${5:-$RLCORE_MODEL_DIR/policy}
  case $1 in
    grpo) run=("$bin/grpo_trainer" data.train_files="$data/prompts.jsonl" data.val_files="$data/held_out.jsonl"
      data.train_batch_size=4 data.max_prompt_length=64 data.max_response_length=16 actor_rollout_ref.model.path="$model"
      actor_rollout_ref.rollout.n=3 actor_rollout_ref.actor.ppo_mini_batch_size=2
      actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=5 actor_rollout_ref.actor.optim.lr=2e-3
      actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8 actor_rollout_ref.actor.use_kl_loss=True
      rlcore.reward_command="$HOME/score" trainer.total_training_steps=12 trainer.total_epochs=9 trainer.test_freq=2
      trainer.default_local_dir="$2" trainer.max_actor_ckpt_to_keep=2
      rlcore.threads=$((RANDOM % 2 + 1)) trainer.save_freq="$3") ;;
    dpo) run=("$bin/dpo_trainer" --pretrain "$model" --dataset "$data/pairs.jsonl" --prompt_key prompt --max_epochs 4
      --train_batch_size 4 --micro_train_batch_size 2 --learning_rate 1e-3 --load_checkpoint --save_path "$2/model"
      --ckpt_path "$2" --max_ckpt_num 2 rlcore.threads=$((RANDOM % 2 + 1)) --save_steps "$3") ;;
  esac
}
# What two equal runs have in common: metrics without times and memory, and the last checkpoint to the bit.
essence() {  # essence FOLDER
  sed -E 's#, ?"(timing[^"]*|perf/[^"]*|train/time\(s\))": ?[^,}]*##g' "$1/metrics.jsonl"
  (cd "$1/global_step_12" && find . -type f -exec sha256sum {} + | sort -k 2)
  [ ! -d "$1/model" ] || (cd "$1/model" && find . -type f -exec sha256sum {} + | sort -k 2)
}
files() { (cd "$1" && find . -name '*.safetensors' -printf '%P %s\n' -o -type f -printf '%P\n' | sort); }
# What a run that was ended left can be read: rows with both ends, checkpoints with the files of an undisturbed run's
# last one. Before its last step a run that took notice of its signal saved the last row's step, wrote the report and
# says how to go on; one that did not has not begun.
whole() {  # whole FOLDER SIGNAL CODE UNDISTURBED
  local folder=$1 signal=$2 code=$3 step last rows newest
  [ -e "$folder/metrics.jsonl" ] || return 0  # it ended before it began
  rows=$(grep -c '^{"step": *[0-9]*[,}].*}$' "$folder/metrics.jsonl" || true)
  if [ "$signal" != KILL ] && [ "$(wc -l <"$folder/metrics.jsonl")" != "$rows" ]; then
    echo "metrics.jsonl has broken rows"; return 1
  fi
  for step in "$folder"/global_step_*; do
    case $step in *.tmp-* | *'*') continue ;; esac
    diff <(files "$step") <(files "$4/global_step_12") >&2 || { echo "$step is not whole"; return 1; }
  done
  newest=$(cat "$folder/latest_checkpointed_iteration.txt" 2>/dev/null || echo 0)
  [ "$newest" = 0 ] || [ -d "$folder/global_step_$newest" ] || { echo "no checkpoint $newest"; return 1; }
  last=$(sed -n '$s/^{"step": *\([0-9]*\).*/\1/p' "$folder/metrics.jsonl")
  if [ "$signal" = KILL ] || [ "$code" = 0 ] || [ "$last" = 12 ]; then return 0; fi
  if ! grep -q "run the same command again" "$log"; then
    ! grep -q '^step:[1-9]' "$log" || { echo "ended without a word after step $last: $(<"$log.err")"; return 1; }
    return 0
  fi
  [ ! -e "$folder/run.lock" ] || { echo "run.lock is left"; return 1; }
  [ "$newest" = "$last" ] || { echo "step $last is lost"; return 1; }
  grep -q '</html>' "$folder/report.html" || { echo "no report"; return 1; }
}
disturbed() {  # disturbed NUMBER KIND
  local folder=$place/signals/run$1 kind=$2 undisturbed=$place/signals/$2_-1 log=$place/signals/log
  local names=(INT TERM KILL) codes=(130 143 137) frequencies=(-1 1 4) signal code saves most wait process run
  for ((most = RANDOM % 3 + 1; most > 0; --most)); do
    saves=${frequencies[RANDOM % 3]} signal=$((RANDOM % 3))
    trainer "$kind" "$folder" "$saves"
    wait=$((${took[$kind$saves]} * (RANDOM % 1000) / 1000))
    story+=" SIG${names[signal]} after $wait ms,"
    # The shell starts what it does not wait for with SIGINT ignored.
    env --default-signal=INT,TERM "${run[@]}" >"$log" 2>"$log.err" </dev/null &
    process=$!
    sleep "$((wait / 1000)).$(printf %03d $((wait % 1000)))"
    kill "-${names[signal]}" $process 2>/dev/null || true
    code=0
    wait $process 2>/dev/null || code=$?
    [ $code = 0 ] || [ $code = ${codes[signal]} ] || { echo "exit code $code: $(<"$log.err")"; return 1; }
    whole "$folder" ${names[signal]} $code "$undisturbed" || return 1
    ended[$code]=$((${ended[$code]:-0} + 1))
    [ $code != 0 ] || break
  done
  trainer "$kind" "$folder" 100
  "${run[@]}" >"$log" 2>"$log.err" </dev/null || { echo "going on: exit code $?: $(<"$log.err")"; return 1; }
  [ ! -s "$log.err" ] || { echo "going on: stderr: $(<"$log.err")"; return 1; }
  diff <(essence "$folder") <(essence "$undisturbed") >&2 || { echo "other bits"; return 1; }
  if find "$folder" -name '*.tmp-*' -o -name run.lock | grep . >&2; then echo "left over"; return 1; fi
  rm -rf "$folder"
}
part_signals() {
  local i kind saves run begin ended=() story said runs=${count:-100}
  declare -A took
  mkdir -p "$place/signals"
  RANDOM=$seed
  for kind in grpo dpo; do
    for saves in -1 1 4; do
      trainer $kind "$place/signals/${kind}_$saves" $saves
      begin=$(date +%s%N)
      "${run[@]}" >"$place/signals/log" 2>&1 || { fail "$kind: $(<"$place/signals/log")"; return; }
      took[$kind$saves]=$((($(date +%s%N) - begin) / 1000000))
    done
    trainer $kind "$place/signals/${kind}_-1" 100
    "${run[@]}" >"$place/signals/log" 2>&1 || { fail "$kind: $(<"$place/signals/log")"; return; }
  done
  for ((i = 1; i <= runs; ++i)); do
    kind=grpo story=
    [ $((i % 3)) != 0 ] || kind=dpo
    disturbed $i $kind >"$place/said" 2>&1 || fail "run $i of --seed $seed, $kind,$story $(<"$place/said")"
  done
  [ "$runs" -lt 50 ] || [ ${#ended[@]} = 4 ] || fail "not every signal ended a run: exit codes ${!ended[*]}"
  said=
  for i in "${!ended[@]}"; do said+=", ${ended[i]} end with exit code $i"; done
  echo "new_user: $runs runs under signals of seed $seed$said"
}
