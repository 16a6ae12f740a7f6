#!/bin/bash
# Stands in the place of every program that a page of the documentation calls (tests/commands/run.sh puts it there under
# their names). Our own programs are run with the page's arguments and then some that make them small; what
# not_run.txt names is looked at only. RLCORE_ROOT, RLCORE_BUILD: the sources and the build.
set -eu
name=${0##*/}
fail() { echo "commands: $name: $*" >&2; exit 1; }
listed() { grep -q "^$1 " "$RLCORE_ROOT/tests/commands/not_run.txt"; }
real=$RLCORE_BUILD/bin/$name

# Every flag of a script has to stand in its text, or in the files beside it.
flags_of_script() {  # flags_of_script FILE ARGS...
  local file=$1 text argument
  shift
  text=$(find "$(dirname "$file")" -maxdepth 1 -type f -exec cat {} +)
  for argument; do
    case $argument in
      -*) grep -qF -- "${argument%%=*}" <<<"$text" || fail "${file#"$RLCORE_ROOT/"} knows no ${argument%%=*}" ;;
    esac
  done
}

script() {  # script FILE ARGS...: up to the command that it starts
  local file=$RLCORE_ROOT/$1 own=() argument
  shift
  [ -e "$file" ] || fail "no file ${file#"$RLCORE_ROOT/"}"
  case $file in *.sh) bash -n "$file" ;; esac
  for argument; do
    case $argument in mpirun | build/bin/*) break ;; esac
    own+=("$argument")
  done
  flags_of_script "$file" ${own[@]+"${own[@]}"}
  shift ${#own[@]}
  [ $# = 0 ] || exec "$@"
}

case $name in
  make)
    exec /usr/bin/env PATH="$RLCORE_PATH" make --no-print-directory -s -n -C "$RLCORE_ROOT" "$@" >/dev/null ;;
  cmake)
    while [ $# -gt 0 ]; do
      [ "$1" != --target ] || target=$2
      shift
    done
    [ -n "${target:-}" ] || exit 0
    [ -e "$RLCORE_ROOT/examples/minimal/${target#minimal_}.cpp" ] ||
      grep -rqwE "$target|${target#test_}" --include=CMakeLists.txt "$RLCORE_ROOT" || fail "no target $target" ;;
  ctest)
    [ "$1" != --test-dir ] || shift 2
    exec /usr/bin/env PATH="$RLCORE_PATH" ctest --test-dir "$RLCORE_BUILD" -N "$@" >/dev/null ;;
  pip)
    for argument; do
      case $argument in *.txt) [ -e "$RLCORE_ROOT/$argument" ] || fail "no file $argument" ;; esac
    done ;;
  python | python3 | sbatch) script "$@" ;;
  tensorboard | tar | curl) ;;
  *.py | *.sh) script "$0" "$@" ;;
  mpirun)
    while [ $# -gt 0 ]; do
      case $1 in
        -np | --hostfile | --map-by | --bind-to) shift 2 ;;
        --mca) shift 3 ;;
        --oversubscribe | --allow-run-as-root) shift ;;
        -*) fail "$1 is not among the options that the pages explain" ;;
        *) exec "$@" ;;
      esac
    done ;;
  test_*)
    program=$RLCORE_BUILD/tests/$name
    [ -x "$program" ] || fail "no test program $name"
    grep -q '^  ' <<<"$("$program" --gtest_list_tests "$@")" || fail "$* selects no test" ;;
  minimal_*)
    [ -e "$RLCORE_ROOT/examples/minimal/${name#minimal_}.cpp" ] || fail "no such program" ;;
  catalogue_bench | words_bench | parallel_bench | speed_bench) flags_of_script "$RLCORE_ROOT/bench/$name.cpp" "$@" ;;
  npu_abi_check) ;;
  *)
    [ -x "$real" ] || fail "no such program"
    arguments=()
    for argument; do
      case $argument in
        ...)
          case $name in
            sft_trainer) arguments+=(data.train_files=sft.jsonl data.val_files=sft.jsonl data.prompt_key=question
              data.response_key=answer model.partial_pretrain=MODEL) ;;
            *) arguments+=(data.train_files=train.jsonl data.val_files=test.jsonl actor_rollout_ref.model.path=MODEL) ;;
          esac ;;
        *=...) arguments+=("${argument%...}train.jsonl" data.val_files=test.jsonl actor_rollout_ref.model.path=MODEL) ;;
        *) arguments+=("$argument") ;;
      esac
    done
    set -- "${arguments[@]}"
    [ "$RLCORE_PARQUET" = 1 ] || set -- "${@//.parquet/.jsonl}"
    if listed "$name" || { [ $# -gt 0 ] && listed "$name:$1"; } || [[ " $* " =~ ' trainer.device='(npu|cuda)|tool_config_path=|agent_func_path|replay_wait_s= ]]; then
      set -- "$@" --cfg job
    fi
    case " $* " in *' --cfg '* | *' --help '*) exec "$real" "$@" >/dev/null ;; esac
    small=(rlcore.threads=1)
    case $name in
      grpo_trainer | dapo_trainer | ppo_trainer | reinforce_plus_plus_trainer)
        if [[ " $* " = *' --pretrain '* ]]; then
          small+=(--rollout_batch_size 4 --n_samples_per_prompt 2 --train_batch_size 8 --micro_train_batch_size 2
            --micro_rollout_batch_size 2 --generate_max_len 4 --prompt_max_len 200 --max_samples 4)
        else
          small+=(data.train_batch_size=4 data.gen_batch_size=4 data.max_prompt_length=200 data.max_response_length=4
            data.val_max_samples=4 actor_rollout_ref.rollout.n=2 actor_rollout_ref.actor.ppo_mini_batch_size=2
            actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 trainer.resume_mode=disable)
          [[ " $* " != *filter_groups* ]] || small+=(algorithm.filter_groups.max_num_gen_batches=2)
        fi
        small+=(trainer.total_training_steps=1) ;;
      sft_trainer)
        if [[ " $* " = *' --pretrain '* ]]; then
          small+=(--train_batch_size 4 --micro_train_batch_size 4 --max_samples 4)
        else
          small+=(data.train_batch_size=4 data.micro_batch_size_per_gpu=4 data.train_max_samples=4 data.val_max_samples=4
            trainer.total_training_steps=1 trainer.resume_mode=disable)
        fi ;;
      dpo_trainer | kto_trainer | rm_trainer | prm_trainer)
        small+=(--train_batch_size 4 --micro_train_batch_size 4 --max_samples 8 --max_epochs 1) ;;
      evaluate)
        small=()
        [[ " $* " != *' model.path='* ]] || small+=(rlcore.threads=1 data.max_response_length=4)
        [[ " $* " != *' rollout.n='* ]] || small+=(rollout.n=2) ;;
      *) small=() ;;
    esac
    exec "$real" "$@" ${small[@]+"${small[@]}"} >/dev/null ;;
esac
