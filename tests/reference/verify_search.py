# Scores of verl's exact-match reward for search answers over generated texts.
#   python verify_search.py      (verl as pinned in requirements.txt) writes verify_search.json
import contextlib
import io
import json
import pathlib
import random

from verl.utils.reward_score import search_r1_like_qa_em as em

random.seed(6)
WORDS = ["the", "The", "a", "an", "A", "Beatles", "BEATLES", "U.S.", "O'Brien", "1,234", "Ärger", "ÉCOLE", "été", "Москва", "ΑΘΗΝΑ", "an-other", "theory",
         "the_", "_a", "thé", "a²", "New", "York", "–", "“quoted”", "\u00a0", "\t", "\n", "!", "?", "a.", "(the)", "naïve", "İstanbul", "Łódź", "水", "½", "a\u0301", "ŸA"]


def phrase(most):
    return random.choice(["", " "]) + random.choice([" ", " ", "", "  "]).join(random.choice(WORDS) for _ in range(random.randint(0, most)))


rows = []
with contextlib.redirect_stdout(io.StringIO()):
    for _ in range(500):
        answer = phrase(4)
        truth = [phrase(3), random.choice([answer, answer.upper(), answer.lower(), answer + " the", "The " + answer, answer + "!"])][: random.randint(1, 2)]
        text = phrase(3) + random.choice(["<answer>", "<answer>", "<answer>x</answer> <answer>", "<answer>a<answer>", ""]) + answer
        text += random.choice(["</answer>", "</answer>", "</answer> done", "", "</answer>" + "</answer>" * 11])
        target = truth if random.random() < 0.7 else truth[-1]
        rows.append([text, json.dumps({"target": target}, ensure_ascii=False), em.compute_score(text, {"target": target})])
    norms = [[w, em.normalize_answer(w)] for w in [phrase(6) for _ in range(300)] + [chr(c) for c in [*range(0x20, 0x180), *range(0x386, 0x3CF), *range(0x400, 0x460)]]]
out = {"rows": rows, "normal": norms}
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(out, ensure_ascii=False).replace("], [", "],\n["))
print(len(rows), "rows,", sum(r[2] > 0 for r in rows), "right")
