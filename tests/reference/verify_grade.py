# Judgements of answers by verl's prime_math grader and by mathruler (which verl's geo3k reward calls), and verl's geo3k scores.
#   python verify_grade.py      (verl, mathruler, sympy, pylatexenc as pinned in requirements.txt) writes verify_grade.json
import contextlib
import io
import json
import pathlib
import random
import warnings

import mathruler.grader as mathruler
from verl.utils.reward_score import geo3k, prime_math

warnings.simplefilter("ignore")
random.seed(9)
SAME = [["1/2", "\\frac{1}{2}", "\\frac12", "0.5", "\\dfrac{1}{2}", "2/4", ".5", "50\\%"], ["3", "3.0", "\\boxed{3}", "3 cm", "\\$3", "3^\\circ", "6/2", "1+2", "3.00000001"],
        ["\\sqrt{12}", "2\\sqrt{3}", "2\\sqrt3", "sqrt(12)", "3.4641", "12^{1/2}"], ["1,234", "1234", "1234.0", "1{,}234", "1,\\!234"], ["x+1", "1+x", "(x+1)", "x + 1"],
        ["(x+1)^2", "x^2+2x+1", "x^2 + 2x + 1", "(1+x)(1+x)"], ["(1,2)", "(1, 2)", "(1.0,2)", "\\left(1,2\\right)", "(2,1)", "[1,2]", "1,2"], ["\\pi", "pi", "3.14159", "\\pi r^2/r^2"],
        ["2\\pi", "2 \\pi", "2*pi", "\\pi+\\pi", "6.28"], ["7 3/4", "7\\frac{3}{4}", "31/4", "7.75", "7 \\frac34"], ["2 million", "2000000", "2*10^6"], ["-5", "- 5", "-5.0", "5", "--5"],
        ["\\text{yes}", "yes", "Yes", "no"], ["x=5", "5", "y = 5", "5 or 6", "5 and 6", "5,6"], ["\\frac{\\sqrt{2}}{2}", "\\frac{1}{\\sqrt{2}}", "1/sqrt(2)", "\\sqrt{2}/2"],
        ["(-\\infty,3]\\cup[4,5)", "(-\\infty, 3] \\cup [4, 5)", "(-inf,3]U[4,5)"], ["1e3", "1000", "10^3"], ["5!", "120", "5 \\cdot 24", "5 \\times 24"], ["x^{10}", "x^10", "x^9 x"],
        ["\\theta", "\\theta+0", "2\\theta/2"], ["90", "90^\\circ", "90 degrees", "90 degree"], ["3 meters", "3m", "3 m"], ["a/b", "\\frac{a}{b}", "\\frac ab", "a b^{-1}"], ["abc", "a b c", "cab"],
        ["0.333", "1/3", "0.3333333333333"], ["\\ln(2)", "ln(2)", "0.6931471805599453"], ["2/4", "1/2"], ["inf", "\\infty", "nan"], ["", " ", "0"], ["\\unknown{3}", "3"]]
pairs = [(a, b) for group in SAME for a in group for b in group]
flat = [x for group in SAME for x in group]
pairs += [(random.choice(flat), random.choice(flat)) for _ in range(150)]
ATOMS = ["1", "2", "3", "7", "x", "y", "\\pi", "\\sqrt{2}", "\\sqrt{x}", "0.5", "\\frac{1}{3}", "(x+1)", "12"]


def formula(depth):
    if depth == 0 or random.random() < 0.3:
        return random.choice(ATOMS)
    return formula(depth - 1) + random.choice(["+", "-", "*", " ", "/", " + "]) + formula(depth - 1)


for _ in range(150):
    f, g = formula(2), formula(1)
    pairs += [(f"{f}+{g}", f"{g}+{f}"), (f, g)]
rows = []
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    for given, truth in pairs:
        rows.append([given, truth, prime_math.grade_answer(given, truth), mathruler.grade_answer(given, truth)])
    geometry = []
    for given, truth in random.sample(pairs, 120):
        text = random.choice(["<think>a</think> ", "<think>", " <think>a</think>", "<think>\n</think>\n", ""]) + random.choice(
            [f"so \\boxed{{{given}}}", f"\\boxed{{{given}}} done", f"\\boxed{{1}} then \\boxed{{ {given} }}.", f"\\boxed{{{given}", given])
        geometry.append([text, truth, geo3k.compute_score(text, truth)])
    texts = []
    for given, truth in random.sample(pairs, 200) + [(a, b) for a in ("50", "0.5", "5", "0.50001", "500", "3.14159", "2\\pi", "5%", "$5", "101_2") for b in ("5", "50\\%", "\\pi", "5_{10}")]:
        text = random.choice(["The answer is ", "Answer: ", "so it must be ", "We get ", "x = ", "", "First. Then the answers are ", "\\boxed{"]) + given
        text += random.choice(["", ".", ". ", ". Done", " is the answer", "\n", "}", "}. So"])
        texts.append([text, truth, prime_math.match_answer(text)[1], bool(prime_math.compute_score(text, truth)[0])])
out = {"rows": rows, "geo3k": geometry, "prime_math": texts}
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(out, ensure_ascii=False).replace("], [", "],\n["))
print(len(rows), "pairs,", sum(r[2] for r in rows), "and", sum(r[3] for r in rows), "equal;", len(geometry), "texts")
