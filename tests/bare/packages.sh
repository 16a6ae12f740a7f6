#!/bin/bash
# packages.sh: what a user does on a system where both packages are installed. README's first snippet compiles and links
# by pkg-config, a project finds the library by CMake, and the installed programs evaluate, plan and serve the model.
# Runs in the project's folder, of which it takes the tests alone, after `rlcore quickstart` has run in /work.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
log=$work/log
# must WHAT COMMAND...: its output only if it fails.
must() {
  local what=$1
  shift
  "$@" >"$log" 2>&1 || { cat "$log"; echo "packages: failed: $what"; exit 1; }
  echo "packages: $what"
}
{ apt-get update && apt-get install -y --no-install-recommends libeigen3-dev pkg-config make curl; } </dev/null >"$log" 2>&1 ||
  { tail -n 5 "$log"; exit 1; }

# Outside of the project, so that no header of its own is found.
cat >"$work/snippet.cpp" <<'CPP'
const Eigen::ArrayXXf response_mask(0, 0);
int main() {
  // <snippet: README.md 1>
  return report.loss() == 0 ? 0 : 1;
}
CPP
(cd "$project" && awk -v met="$work/met" -f tests/snippets/complete.awk "$work/snippet.cpp") >"$work/first.cpp"
cd "$work"
# shellcheck disable=SC2046
must "README's first snippet compiles" g++ -std=c++20 -O1 $(pkg-config --cflags rlcore eigen3) first.cpp -o first
must 'a project finds the library' cmake -S "$project/tests/install/consumer" -B consumer -DEXPECTED_PARTS=threads,eigen,train
must 'it compiles' cmake --build consumer
must 'its numbers are right' consumer/consumer

run=/work/runs/quickstart
model=$(ls -d "$run"/global_step_*/actor/huggingface | tail -n 1)
must 'the model is evaluated' rlcore evaluate "model.path=$model" "data.files=$run/data/test.jsonl" \
  data.max_response_length=64 "output_dir=$work/evaluation"
must 'a random model is made' rlcore random_model --tokenizer "$model" --output "$work/model"
must 'it is planned for' rlcore plan "model=$work/model" devices=1

: >"$work/server"  # the loop may look before the redirection has made it
rlcore openai_server --model "$model" --served-model-name auto --port 0 >"$work/server" 2>&1 &
server=$!
for ((i = 0; i < 300; ++i)); do
  url=$(sed -n 's/^ready *\(http[^ ]*\).*/\1/p' "$work/server")
  [ -z "$url" ] || break
  sleep 0.1
done
must 'the server answers' curl --silent --show-error --fail "${url:-http://no.server.invalid}/v1/completions" \
  --header 'Content-Type: application/json' --data '{"model": "auto", "prompt": "2 + 3 =", "max_tokens": 8, "temperature": 0}'
grep -q '"object":"text_completion"' "$log"
kill -TERM $server
code=0
wait $server || code=$?
[ $code = 143 ] || { cat "$work/server"; echo "packages: the server ended with $code"; exit 1; }

if rlcore no_such_program 2>"$log"; then exit 1; fi
grep -q "no program 'no_such_program'; there are .*grpo_trainer" "$log"
echo 'packages: all is well'
