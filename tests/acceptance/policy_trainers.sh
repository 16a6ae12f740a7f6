#!/bin/sh
# Every policy trainer on the embedded task, three seeds: the validation reward after 50 steps must exceed 0.9.
#   tests/acceptance/policy_trainers.sh [build folder]     TRAINERS="grpo ppo reinforce_plus_plus dapo" SEEDS="1 2 3"
set -eu
bin=$(cd "${1:-build}/bin" && pwd)
trainers=${TRAINERS:-grpo ppo reinforce_plus_plus dapo}
seeds=${SEEDS:-1 2 3}
place=${PLACE:-runs/policy_trainers}
mkdir -p "$place"
cd "$place"
failed=0
for seed in $seeds; do
  mkdir -p "seed$seed"
  task=$(pwd)/seed$seed/runs/quickstart
  if [ ! -f "$task/model/model.safetensors" ]; then
    (cd "seed$seed" && "$bin/quickstart" --task_only rlcore.seed="$seed" > task.log)
  fi
  for trainer in $trainers; do
    case $trainer in
      ppo) own="algorithm.lam=0.95 critic.optim.lr=1e-3 critic.ppo_micro_batch_size_per_gpu=128
                critic.model.enable_gradient_checkpointing=False" ;;
      dapo) own="algorithm.filter_groups.enable=True algorithm.filter_groups.metric=acc" ;;
      *) own="" ;;
    esac
    # shellcheck disable=SC2086
    "$bin/${trainer}_trainer" data.train_files="$task/data/train.jsonl" data.val_files="$task/data/test.jsonl" \
      actor_rollout_ref.model.path="$task/model" data.train_batch_size=64 data.max_prompt_length=128 \
      data.max_response_length=20 actor_rollout_ref.rollout.n=8 actor_rollout_ref.actor.ppo_mini_batch_size=16 \
      actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=128 actor_rollout_ref.actor.optim.lr=3e-4 \
      actor_rollout_ref.actor.optim.warmup_style=cosine actor_rollout_ref.model.enable_gradient_checkpointing=False \
      trainer.total_training_steps=50 trainer.test_freq=10 trainer.logger=console trainer.resume_mode=disable \
      trainer.default_local_dir="$(pwd)/seed$seed/$trainer" rlcore.seed="$seed" $own > "seed$seed/$trainer.log"
    reward=$(sed -n 's/^validation .* -> //p' "seed$seed/$trainer.log")
    verdict=$(awk -v r="$reward" 'BEGIN { print (r > 0.9 ? "ok" : "FAILED") }')
    echo "$trainer seed $seed: $(sed -n 's/^validation  *//p' "seed$seed/$trainer.log")  $verdict"
    [ "$verdict" = ok ] || failed=1
  done
done
exit $failed
