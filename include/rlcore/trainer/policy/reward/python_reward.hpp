// Python adapter for verl's compute_score functions over JSON lines.
#pragma once

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer {

/// python3 -c <this> <file> <function> <further arguments as JSON> <0|1: the function takes lists>. Answers {"ready":
/// 1} or {"error": ...} first. What the function prints goes to standard error.
inline constexpr const char* python_reward = R"py(
import importlib.util, json, os, sys
answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)
path, name, further, lists = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4] == "1"

def plain(x):
    if hasattr(x, "item"):
        x = x.item()
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items() if k in ("score", "acc", "pred")}
    return x if x is None or isinstance(x, (bool, int, float, str)) else str(x)

def say(x):
    try:
        answers.write(json.dumps(x) + "\n")
        answers.flush()
    except BrokenPipeError:
        os._exit(1)

def answer(x):
    try:
        x = plain(x[0] if isinstance(x, tuple) else x)
        json.dumps(x)
    except Exception as e:
        return tell(e)
    say(x)

def tell(e):
    say({"error": (type(e).__name__ + ": " + str(e)).replace("\n", " ")[:300]})

try:
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("reward_function", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["reward_function"] = module
    spec.loader.exec_module(module)
    function = getattr(module, name)
    answer(1)
except BaseException as e:
    tell(e)
    sys.exit(1)

waiting, batch = 0, []
for line in sys.stdin.buffer:
    request = json.loads(line)
    if not lists:
        try:
            answer(function(**request, **further))
        except Exception as e:
            tell(e)
        continue
    if "count" in request:
        waiting, batch = request["count"], []
        continue
    batch.append(request)
    if len(batch) < waiting:
        continue
    try:
        columns = {"data_sources": "data_source", "solution_strs": "solution_str",
                   "ground_truths": "ground_truth", "extra_infos": "extra_info"}
        scores = list(function(**{k: [r[v] for r in batch] for k, v in columns.items()}, **further))
        if len(scores) != len(batch):
            raise ValueError("%d scores for %d responses" % (len(scores), len(batch)))
        for score in scores:
            answer(score)
    except Exception as e:
        for _ in batch:
            tell(e)
)py";

}  // namespace trainer
RLCORE_END
