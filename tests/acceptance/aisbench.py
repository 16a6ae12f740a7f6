#!/usr/bin/env python3
"""AISBench as published, against openai_server started by vLLM's own command line:

    aisbench.py [--build build] [--loops 1] [--models vllm_api_general ...] [--datasets aime2024 gsm8k] [--keep FOLDER]

AISBench's models of these names, edited as its users edit them, answer stand-in rows of aime2024 and of GSM8K; the
server is restarted and answers them again. No row may fail, and loop by loop the predictions have to be the same; the
loops of one server differ. AISBench's accuracy on GSM8K is that of `evaluate` on the same responses. AISBench lies in
BUILD/aisbench, where pip puts it (gigabytes: it needs PyTorch), or in the virtual environment $RLCORE_AISBENCH. Without
it the exit code is 77.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEEL = "ais-bench-benchmark==3.1.20260630"
MODELS = ["vllm_api_general", "vllm_api_general_stream", "vllm_api_general_chat", "vllm_api_stream_chat"]
DATASETS = {"aime2024": "aime2024_gen", "gsm8k": "gsm8k_gen_0_shot_cot_str"}
ROWS = {"aime2024": 3, "gsm8k": 40}
RIGHT = "4"  # of all problems: what a random model often says last
# What the command lines of a published evaluation set, with texts of a length for tests.
SETTINGS = {"host_port": None, "max_out_len": 200, "batch_size": 48, "retry": 2}
GENERATION = "temperature=0.5, top_k=10, top_p=0.95, seed=None, repetition_penalty=1.03"


def environment(build):
    """A Python with AISBench in it; None if there is none and pip cannot make one."""
    chosen = os.environ.get("RLCORE_AISBENCH")
    venv = pathlib.Path(chosen) if chosen else build / "aisbench"
    python = venv / "bin/python3"
    ready = lambda: python.exists() and subprocess.run(
        [python, "-c", "import ais_bench.benchmark.cli.config_manager"], capture_output=True).returncode == 0
    if ready() or chosen:
        return venv if ready() else None
    print(f"aisbench: {WHEEL} and PyTorch into {venv}", flush=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--no-input", "--retries", "1", "--prefer-binary"]
    with open(build / "aisbench.log", "w") as log:
        for command in ([sys.executable, "-m", "venv", venv],
                        [*pip, "-r", ROOT / "tests/acceptance/aisbench.txt"], [*pip, "--no-deps", WHEEL]):
            if subprocess.run(command, stdout=log, stderr=log).returncode != 0:
                return None
    return venv if ready() else None


def save_model(build, place):
    """A random model with the tokenizer of tests/reference/text_qwen2."""
    source = place / "tokenizer"
    source.mkdir()
    shutil.copy(ROOT / "tests/reference/text_qwen2/tokenizer.json", source)
    turn = "{{- '<|im_start|>' + turn.role + '\\n' + turn.content + '<|im_end|>\\n' }}"
    (source / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "chat_template": "{%- for turn in messages %}" + turn + "{%- endfor %}{%- if add_generation_prompt %}"
                         "{{- '<|im_start|>assistant\\n' }}{%- endif %}"}))
    subprocess.run([build / "bin/random_model", "--tokenizer", source, "--output", place / "model"], check=True,
                   stdout=subprocess.DEVNULL)
    return place / "model"


def save_rows(place):
    """Stand-in rows, where AISBench looks for its data sets."""
    aime = place / "data/ais_bench/datasets/aime"
    gsm8k = place / "data/ais_bench/datasets/gsm8k"
    for folder in (aime, gsm8k):
        folder.mkdir(parents=True)
    problems = [{"origin_prompt": f"Find the last digit of {4 + 10 * i}^{{{21 + 2 * i}}}.", "gold_answer": RIGHT}
                for i in range(ROWS["aime2024"])]
    (aime / "aime.jsonl").write_text("".join(json.dumps(p) + "\n" for p in problems))
    problems = [{"question": f"Ann has {i + 4} apples and gives {i} away. How many are left?",
                 "answer": f"{i + 4} - {i} = <<{i + 4}-{i}=4>>4\n#### {RIGHT}"} for i in range(ROWS["gsm8k"])]
    for split in ("train", "test"):
        (gsm8k / f"{split}.jsonl").write_text("".join(json.dumps(p) + "\n" for p in problems))


def save_configs(venv, place, models, port):
    """AISBench's own configurations with the edits of its users."""
    package = next(venv.glob("lib/python3*/site-packages/ais_bench/benchmark/configs"))
    configs = place / "configs"
    shutil.rmtree(configs, ignore_errors=True)
    shutil.copytree(package, configs)
    for name in models:
        file = configs / f"models/vllm_api/{name}.py"
        text = file.read_text()
        for key, value in {**SETTINGS, "host_port": port}.items():
            text, count = re.subn(rf"\b{key}=\d+", f"{key}={value}", text)
            assert count == 1, (name, key)
        if "chat" not in name:
            text, count = re.subn(r"generation_kwargs=dict\([^)]*\)", f"generation_kwargs=dict({GENERATION})", text)
            assert count == 1, name
        file.write_text(text)
    return configs


@contextlib.contextmanager
def server(build, model, log):
    """The published command line, on a free port; gives the port."""
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", f"--model={model}", "--served-model-name",
               "auto", "--gpu-memory-utilization", "0.9", "--max-num-seqs", "24", "--max-model-len", "1024",
               "--max-num-batched-tokens", "22528", "--enforce-eager", "--trust-remote-code",
               "--distributed_executor_backend=mp", "--tensor-parallel-size", "8", "--data-parallel-size", "1",
               "--generation-config", "vllm", "--port", "0"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "examples/compat"), "PYTHONDONTWRITEBYTECODE": "1",
                 "RLCORE_OPENAI_SERVER": str(build / "bin/openai_server")}
    with open(log, "w+") as output:
        process = subprocess.Popen(command, env=variables, stdout=output, stderr=output)
        try:
            while not (found := re.search(r"ready +http://127\.0\.0\.1:(\d+)", log.read_text())):
                if process.poll() is not None:
                    sys.exit(f"aisbench: the server did not start: {log.read_text()}")
                time.sleep(0.05)
            yield int(found[1])
        finally:
            process.terminate()
            process.wait()


def ask(venv, place, configs, models, datasets, work):
    """One run of AISBench; its predictions by file, and its table."""
    variables = {**os.environ, "AIS_BENCH_DATASETS_CACHE": str(place / "data"), "HF_HUB_OFFLINE": "1",
                 "no_proxy": "localhost,127.0.0.1", "PATH": f"{venv / 'bin'}:{os.environ['PATH']}"}
    command = [venv / "bin/ais_bench", "--models", *models, "--datasets", *(DATASETS[d] for d in datasets),
               "--config-dir", configs, "--work-dir", work]
    done = subprocess.run(command, env=variables, cwd=place, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != 0:
        sys.exit(f"aisbench: ais_bench ended with {done.returncode}:\n{done.stdout[-4000:]}")
    failed = list(work.rglob("*_failed.jsonl"))
    if failed:
        sys.exit(f"aisbench: rows failed: {failed[0].read_text()}")
    predictions = {}
    for file in work.rglob("predictions/*/*.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        predictions[f"{file.parent.name}/{file.stem}"] = {row["id"]: row["prediction"] for row in rows}
    table = next(work.rglob("summary/summary_*.csv"), None)
    return predictions, table.read_text() if table else done.stdout[-2000:]


def compare_with_evaluate(build, work):
    """AISBench's accuracy on GSM8K beside that of our own program on the same texts, for each model."""
    for file in sorted(work.rglob("results/*/gsm8k.json")):
        theirs = json.loads(file.read_text())["accuracy"]
        predictions = file.parents[2] / "predictions" / file.parent.name / "gsm8k.jsonl"
        rows = [json.loads(line) for line in predictions.read_text().splitlines()]
        stored = file.with_suffix(".responses.jsonl")
        stored.write_text("".join(json.dumps({"prompt": row["origin_prompt"], "response": row["prediction"],
                                              "ground_truth": RIGHT}) + "\n" for row in rows))
        subprocess.run([build / "bin/evaluate", f"responses={stored}", "rule=last_number",
                        f"output_dir={file.parent / 'evaluate'}"], check=True, stdout=subprocess.DEVNULL)
        (ours,) = json.loads((file.parent / "evaluate/result.json").read_text())["metrics"].values()
        print(f"{file.parent.name}: accuracy {theirs:.2f}, by evaluate {100 * ours:.2f}")
        assert abs(theirs - 100 * ours) < 1e-6, f"{file}: AISBench says {theirs}, evaluate {100 * ours}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default="build")
    parser.add_argument("--loops", type=int, default=1)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for everything that is written")
    options = parser.parse_args()
    build = options.build.resolve()
    venv = environment(build)
    if venv is None:
        print(f"aisbench: {WHEEL} could not be installed (see {build}/aisbench.log): skipped")
        sys.exit(77)
    with contextlib.ExitStack() as stack:
        if options.keep:
            options.keep.mkdir(parents=True)
        place = (options.keep or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))).resolve()
        model = save_model(build, place)
        save_rows(place)
        starts = []
        for start in range(2):
            with server(build, model, place / f"server_{start}.log") as port:
                configs = save_configs(venv, place, options.models, port)
                starts.append([])
                for loop in range(options.loops):
                    begin = time.monotonic()
                    work = place / f"start_{start}/loop_{loop}"
                    predictions, table = ask(venv, place, configs, options.models, options.datasets, work)
                    starts[-1].append(predictions)
                    print(f"start {start} loop {loop}: {time.monotonic() - begin:.0f} s\n{table}", flush=True)
                    compare_with_evaluate(build, work)
    check(starts, options)


def check(starts, options):
    files = len(options.models) * len(options.datasets)
    for loop, (first, second) in enumerate(zip(*starts)):
        assert len(first) == files, (sorted(first), files)
        for name, rows in first.items():
            assert len(rows) == ROWS[name.split("/")[1]], f"loop {loop}: {name} has {len(rows)} rows"
            assert all(rows.values()), f"loop {loop}: {name} has an empty prediction"
            assert first[name] == second[name], f"loop {loop}: {name} differs after the restart"
    for name in starts[0][0]:
        sampled = {json.dumps(loop[name], sort_keys=True) for loop in starts[0]}
        assert "chat" in name or len(sampled) == options.loops, f"{name}: two loops have the same texts"
    print(f"aisbench: {options.loops} loops of {files} tasks, twice: equal predictions, no failed rows")


main()
