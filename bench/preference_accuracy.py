"""Held-out pair accuracy of rm_trainer, dpo_trainer, kto_trainer and prm_trainer, with standard errors.

    python3 bench/preference_accuracy.py pairs  scores.jsonl pairs_test.jsonl
    python3 bench/preference_accuracy.py labels scores.jsonl unpaired_test.jsonl
    python3 bench/preference_accuracy.py steps  scores.jsonl steps_test.jsonl

The first file is what rlcore.eval_scores=... wrote, the second the rows it is about (of gsm8k_solutions, none left out).
Pairs of one question share answers, so the error is that of a mean over questions (bootstrap of questions). For
`labels` and `steps` the pairs are all right with all wrong solutions of one question; a solution's score is its reward,
or the judgement of its last step, or the lowest of its steps. Standard library only.
"""

import collections
import json
import random
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def accuracy(pairs):
    """pairs: question -> list of (better, worse)."""
    points = {q: [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in ps] for q, ps in pairs.items() if ps}
    mean = lambda keys: sum(sum(points[k]) for k in keys) / sum(len(points[k]) for k in keys)
    keys, draw = list(points), random.Random(1)
    samples = [mean(draw.choices(keys, k=len(keys))) for _ in range(1000)]
    centre = sum(samples) / len(samples)
    error = (sum((s - centre) ** 2 for s in samples) / (len(samples) - 1)) ** 0.5
    n, m = sum(map(len, points.values())), mean(keys)
    return f"{m:.3f} +- {error:.3f} ({n} pairs of {len(keys)} questions, {(m - 0.5) / error:+.1f} errors from chance)"


def by_question(questions, labels, scores):
    right, wrong = collections.defaultdict(list), collections.defaultdict(list)
    for question, label, score in zip(questions, labels, scores):
        (right if label else wrong)[question].append(score)
    return {q: [(a, b) for a in right[q] for b in wrong[q]] for q in right if q in wrong}


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    kind, scores, rows = sys.argv[1], read(sys.argv[2]), read(sys.argv[3])
    if len(scores) != len(rows):
        sys.exit(f"{len(scores)} scores for {len(rows)} rows: were rows left out?")
    if kind == "pairs":
        pairs = collections.defaultdict(list)
        for score, row in zip(scores, rows):
            pairs[json.dumps(row["prompt"])].append((score["chosen_reward"], score["reject_reward"]))
        print("pair accuracy", accuracy(pairs))
    elif kind == "labels":
        questions = [json.dumps(row["input"]) for row in rows]
        print("pair accuracy", accuracy(by_question(questions, [r["label"] for r in rows], [s["reward"] for s in scores])))
    elif kind == "steps":
        questions = [row["input"].split("\n")[0] for row in rows]
        labels = [row["value"][-1] == "+" for row in rows]
        for name, of in (("last step", lambda s: s[-1]), ("lowest step", min)):
            print(f"{name}: pair accuracy", accuracy(by_question(questions, labels, [of(s["scores"]) for s in scores])))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
