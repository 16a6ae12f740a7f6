# Sourced by new_user.sh: every line of bad_input.txt in the folders of finished runs.

# finished RUN: the command line of a run that bad_input.txt names, in the array `run`; two or three steps.
finished() {
  local data=$place/bad_input/data out=$place/bad_input/out model=$RLCORE_MODEL_DIR/policy
  case $1 in
    grpo) run=("$bin/grpo_trainer" data.train_files="$data/prompts.jsonl" data.val_files="$data/held_out.jsonl"
      data.train_batch_size=4 data.max_prompt_length=64 data.max_response_length=16 actor_rollout_ref.model.path="$model"
      actor_rollout_ref.rollout.n=3 actor_rollout_ref.actor.ppo_mini_batch_size=4
      actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=5 actor_rollout_ref.actor.optim.lr=2e-3 trainer.save_freq=1
      trainer.total_epochs=1 trainer.test_freq=2 trainer.default_local_dir="$out/grpo" rlcore.threads=1) ;;
    sft) run=("$bin/sft_trainer" data.train_files="$data/sft.jsonl" data.val_files="$data/held_out.jsonl"
      data.prompt_key=extra_info data.response_key=extra_info +data.prompt_dict_keys=['question']
      +data.response_dict_keys=['answer'] model.partial_pretrain="$model" data.train_batch_size=8 data.max_length=128
      data.micro_batch_size_per_gpu=3 optim.lr=5e-3 trainer.total_epochs=1 trainer.default_local_dir="$out/sft"
      rlcore.threads=1) ;;
    dpo) run=("$bin/dpo_trainer" --pretrain "$model" --dataset "$data/pairs.jsonl" --prompt_key prompt --max_epochs 1
      --train_batch_size 4 --micro_train_batch_size 2 --learning_rate 1e-3 --beta 0.1 --save_path "$out/dpo_model"
      --ckpt_path "$out/dpo" rlcore.threads=1) ;;
    reinforce_plus_plus) run=("$bin/reinforce_plus_plus_trainer" --prompt_data "$data/prompts.jsonl" --input_key prompt
      --apply_chat_template --pretrain "$model" --rollout_batch_size 4 --n_samples_per_prompt 2 --train_batch_size 8
      --micro_train_batch_size 5 --num_episodes 1 --prompt_max_len 64 --generate_max_len 16 --actor_learning_rate 1e-3
      --init_kl_coef 0.05 --ckpt_path "$out/reinforce_plus_plus" --save_path "$out/reinforce_plus_plus_model"
      rlcore.threads=1) ;;
  esac
}
contents() { find "$place/bad_input" \( -type f -exec sha256sum {} + \) -o -printf '%y %p\n' | sort; }
part_bad_input() {
  local name run line words parts part number=0 before log=$place/log
  mkdir -p "$place/bad_input/out"
  cp -r "$reference/first_steps" "$place/bad_input/data"
  for name in grpo sft dpo reinforce_plus_plus; do
    finished $name
    "${run[@]}" >"$log" 2>"$log.err" </dev/null || { fail "$name: $(<"$log.err")"; return; }
  done
  before=$(contents)
  while IFS='|' read -r name words parts; do
    name=${name// /}
    [ -n "$name" ] && [[ $name != \#* ]] || continue
    number=$((number + 1))
    words=${words//\{data\}/$place/bad_input/data} parts=${parts//\{data\}/$place/bad_input/data}
    words=${words//\{out\}/$place/bad_input/out} parts=${parts//\{out\}/$place/bad_input/out}
    finished $name
    set -f
    # shellcheck disable=SC2206
    run+=($words)
    set +f
    line="mistake $number, $name $words"
    local code=0
    timeout 60 "${run[@]}" >"$log" 2>"$log.err" </dev/null || code=$?
    [ $code = 1 ] || fail "$line: exit code $code: $(head -n 3 "$log.err")"
    [ "$(wc -l <"$log.err")" = 1 ] || fail "$line: not one line: $(head -n 3 "$log.err")"
    grep -q "^${run[0]##*/}: " "$log.err" || fail "$line: not by the program: $(<"$log.err")"
    while IFS= read -r part; do
      [[ $(<"$log.err") = *"$part"* ]] || fail "$line: says nothing of '$part': $(<"$log.err")"
    done < <(sed 's/^ *//; s/ *$//; s/; */\n/g' <<<"$parts")
    if [ "$(contents)" != "$before" ]; then
      fail "$line: changed $(diff <(contents) <(echo "$before") | grep -o '/.*' | sort -u | head -n 3 | tr '\n' ' ')"
      before=$(contents)
    fi
  done <"$here/new_user/bad_input.txt"
  echo "new_user: $number mistakes"
}
