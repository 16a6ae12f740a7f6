# Sourced by new_user.sh: what the command lines name, models and data in the form of each system.

model() {  # model NAME KIND: the tiny model of this kind, with its tokenizer
  mkdir -p "$RLCORE_MODEL_DIR/$1"
  cp "$reference/first_steps/$2"/* "$reference/first_steps/tokenizer"/* "$RLCORE_MODEL_DIR/$1"
}
field() { sed -n "s/.*\"question\": \(.*\), \"answer\": \(.*\)}}\$/$1/p" "$reference/first_steps/$2.jsonl"; }
prepare() {
  local name data=$reference/first_steps
  for name in Qwen/Qwen2.5-0.5B-Instruct Qwen/Qwen2-7B-Instruct deepseek-ai/deepseek-llm-7b-chat policy \
    meta-llama/Meta-Llama-3-8B OpenRLHF/Llama-3-8b-sft-mixture mistralai/Mistral-7B-v0.1; do
    model "$name" qwen2
  done
  model OpenRLHF/Llama-3-8b-rm-700k score
  mkdir -p "$place/raw" "$HOME/data"
  field '{"question": \1, "answer": \2}' sft >"$place/raw/train.jsonl"
  field '{"question": \1, "answer": \2}' prompts >"$place/raw/test.jsonl"
  "$bin/gsm8k_preprocess" --input_dir "$place/raw" --local_save_dir "$HOME/data/gsm8k" >"$place/log"
  cp -r "$HOME/data/gsm8k" "$HOME/data/math"
  parquet=no
  [ ! -e "$HOME/data/gsm8k/train.parquet" ] || parquet=yes
  # A random model earns nothing by GSM8K's rule: this one tells its answers apart by their length.
  cat >"$HOME/score" <<'END'
#!/bin/sh
while read -r line; do echo $((${#line} % 2)); done
END
  chmod +x "$HOME/score"
  # The hub's names are folders of the working directory.
  hub=$place/hub
  mkdir -p "$hub"/{Open-Orca/OpenOrca,OpenRLHF/{preference_dataset_mixture2_and_safe_pku,prompt-collection-v0.1}} \
    "$hub"/{Dylan2048/ultrafeedback-unpaired-preferences,zhuzilin/Math-Shepherd}
  field '{"question": \1, "response": \2}' sft >"$hub/Open-Orca/OpenOrca/train.jsonl"
  field '{"context_messages": [{"role": "user", "content": \1}]}' prompts >"$hub/OpenRLHF/prompt-collection-v0.1/train.jsonl"
  cp "$data/chats.jsonl" "$hub/OpenRLHF/preference_dataset_mixture2_and_safe_pku/train.jsonl"
  sed 's/"input"/"instruction"/; s/"output"/"response"/; s/"label"/"score"/' "$data/unpaired.jsonl" \
    >"$hub/Dylan2048/ultrafeedback-unpaired-preferences/train.jsonl"
  cp "$data/steps.jsonl" "$hub/zhuzilin/Math-Shepherd/train.jsonl"
}
# Problems with figures, and a tiny Qwen2.5-VL under the three published names.
prepare_images() {
  local name
  mkdir -p "$place/geometry/data" "$HOME/data/geo3k"
  (cd "$place/geometry" && "$bin/quickstart" --images --task_only quickstart.warm_start_steps=1) >"$place/log"
  for name in 3B 7B 32B; do
    "$bin/random_model" --tokenizer "$place/geometry/runs/vision/model" --family qwen2_5_vl --hidden_size 64 --layers 2 \
      --heads 8 --max_position 2048 --output "$RLCORE_MODEL_DIR/Qwen/Qwen2.5-VL-$name-Instruct" >"$place/log"
  done
  if [ $parquet = yes ]; then
    for name in train test; do
      cp "$reference/geo3k_$name.parquet" "$place/geometry/data/$name-00000-of-00001.parquet"
    done
    "$bin/geo3k_preprocess" --local_dataset_path "$place/geometry" --local_save_dir "$HOME/data/geo3k" >"$place/log"
  else
    cp "$place/geometry/runs/vision/data"/*.jsonl "$HOME/data/geo3k"
  fi
}
