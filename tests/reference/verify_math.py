# Scores of verl's own reward functions for MATH and DAPO's mathematics over hand-made and generated texts.
#   python verify_math.py      (verl as pinned in requirements.txt) writes verify_math.json
import contextlib
import io
import json
import pathlib
import random

from verl.utils.reward_score import math_dapo, math_reward

random.seed(5)
PIECES = ["\\frac", "\\frac12", "\\frac{1}{2}", "\\dfrac", "\\tfrac3", "\\sqrt", "\\sqrt3", "\\sqrt{2}", "{", "}", "{}",
          "1", "2", "33", "-", "/", "1/2", "3/4", "0.5", ".5", ".", "=", "x=", "x = ", "\\text{ cm}", "\\text{and}",
          "\\text{cm}", "\\text{", "\\left(", "\\right)", "^\\circ", "^{\\circ}", "\\$", "$", "\\%", "%", "\\\\", "\\!",
          "\n", " ", "  ", ",", "1,000", "\\;", "{,}", "\"", "a ", "an ", "\\ ", "mbox", "\\mathrm{th}", "units", "cm",
          "square", "degrees", "\\boxed{", "\\textbf{", "\\overline{", "\\dots", "\\ldots", "π", "水", "é", "\t", "\u00a0"]
HEADS = ["Answer:", "Answer: ", "answer :", "ANSWER:\n", "The Answer: ", "Answer", "Answer :\n\n ", "**Answer:** ", "Final Answer: $",
         "\\boxed{", "\\boxed ", "\\fbox{", "so \\boxed{", "", "x", "\n", "Answer: \\boxed{"]
TAILS = ["", "", "}", "$", "$.", ".", "\n", " ", "}.", " and done", "}\n\n", "\nAnswer: 3"]


def junk(most):
    return "".join(random.choice(PIECES) for _ in range(random.randint(0, most)))


CLEAN = [p for p in PIECES if p.count("{") == p.count("}") and p not in ("\n", "\\frac", "\\dfrac", "\\sqrt", "$")]


def pairs(count):
    for _ in range(count):
        if random.random() < 0.4:
            answer = "".join(random.choice(CLEAN) for _ in range(random.randint(1, 4)))
            other = "".join(c for c in answer if random.random() < 0.97)
            yield random.choice(["Answer: $", "Answer: "]) + answer + random.choice(["", "$"]), random.choice([answer, other])
            yield "so \\boxed{" + answer + "}" + random.choice(["", "$", "."]), random.choice([answer, other])
            continue
        answer = junk(5)
        text = junk(3) + random.choice(HEADS) + answer + random.choice(TAILS)
        if random.random() < 0.2:
            text += random.choice(["x", "水", " "]) * random.randint(0, 330)
        truth = random.choice([answer, answer, answer.replace(" ", ""), junk(3), "33", "\\frac{1}{2}", "0.5", "1/2"])
        yield text, truth


HAND = [("Answer: 33", "33"), ("answer:33", "33"), ("Answer : 33", "33"), ("Answer:\n33", "33"), ("Answer: $33$", "33"),
        ("Answer: $33$.", "33"), ("Answer: \\boxed{33}", "33"), ("Answer: x = 33", "33"), ("Answer: 33 degrees", "33"),
        ("Final Answer: 33", "33"), ("Answer: 3\nAnswer: 33", "33"), ("Answer: 1,033", "1033"), ("Answer:", ""),
        ("Answer: \\frac12", "\\frac{1}{2}"), ("Answer: 33.", "33"), ("**Answer:** 33", "33"), ("Answer: **33**", "33"),
        ("\\boxed{33}", "33"), ("Answer: 033", "33"), ("Answer: 33.0", "33"), ("Answer: (33)", "33"), ("Answer: ", ""),
        ("Answer: 33 and done", "33"), ("The answer is 33", "33"), ("Answer: 33\n" + "x" * 288, "33"), ("Answer: \n \n", ""),
        ("Answer: 33\n" + "x" * 290, "33"), ("\\boxed{33.}", "33"), ("\\boxed{33}" + "x" * 90, "33"),
        ("\\boxed{33}" + "x" * 91, "33"), ("", "[INVALID]"), ("nothing", "[INVALID]"), ("Answer: Answer: 33", "33"),
        ("\\boxed{\\frac12}", "\\frac{1}{2}"), ("\\boxed{1/2}", "\\frac{1}{2}"), ("\\boxed{0.5}", "\\frac{1}{2}"),
        ("\\boxed 5", "5"), ("\\boxed 5.", "5"), ("\\boxed{10\\%}", "10"), ("\\boxed{x=5}", "5"), ("\\boxed{x = 5}", "5"),
        ("\\boxed{5\\text{ cm}}", "5"), ("\\boxed{5^\\circ}", "5"), ("\\boxed{\\$5}", "5"), ("\\boxed{ 5 }", "5"),
        ("\\boxed{1,000}", "1000"), ("\\boxed{5.0}", "5"), ("\\boxed{.5}", "0.5"), ("\\boxed{(1,2]}", "(1, 2]"),
        ("\\boxed{1} \\boxed{2}", "2"), ("5", "5"), ("\\boxed{}", ""), ("\\fbox{5}", "5"), ("\\boxed{5", "5"),
        ("\\boxed{5\\text{ a}\\text{ b}}", "5\\text{ a}\\text{ b}"), ("\\boxed{\\sqrt}", "\\sqrt"), ("\\boxed{\\frac}", "\\frac"),
        ("\\boxed 5 and \\boxed{6}$x", "5and\\boxed{6}"), ("\\boxed}{{5}}", "5"), ("\\boxedx{5}", "5")]

rows = []
with contextlib.redirect_stdout(io.StringIO()):
    for text, truth in HAND + list(pairs(500)):
        window = text[-300:]
        correct, pred = math_dapo.is_correct_minerva(window, truth)
        strict, box = math_dapo.is_correct_strict_box(window, truth)
        newer = math_dapo.compute_score(text, truth)
        rows.append([text, truth, math_reward.compute_score(text, truth), correct, pred, strict == 1, box,
                     newer["score"], newer["pred"]])
target = pathlib.Path(__file__).with_suffix(".json")
columns = ["text", "truth", "math", "dapo", "dapo_pred", "strict_box", "strict_box_pred", "fallback_score", "fallback_pred"]
target.write_text(json.dumps({"columns": columns, "rows": rows}, ensure_ascii=False).replace("], [", "],\n["))
print(len(rows), "rows;", *(f"{c}: {sum(r[i] in (True, 1.0) for r in rows)}" for i, c in enumerate(columns) if i in (2, 3, 5)))
