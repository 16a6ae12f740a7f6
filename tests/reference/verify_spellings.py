# Judgements of one answer in many spellings, of random formulas and of sentences around answers by verl's prime_math and
# geo3k rewards and by mathruler; LaTeX as text by pylatexenc.
#   python verify_spellings.py      (verl, mathruler, sympy, pylatexenc as pinned in requirements.txt) writes verify_spellings.json
import contextlib
import io
import itertools
import json
import pathlib
import random
import warnings

import mathruler.grader as mathruler
from pylatexenc import latex2text
from verl.utils.reward_score import geo3k, prime_math

warnings.simplefilter("ignore")
random.seed(35)
# Each line: spellings that a model may write for one answer, and some that are near it.
GROUPS = [
    ["1/2", "\\frac{1}{2}", "\\frac12", "0.5", ".5", "\\dfrac{1}{2}", "2/4", "50%", "50\\%", "1/2.", "\\frac{1}{2}.", "5e-1", "5*10^-1", "5\\times10^{-1}", "2^-1", "2^{-1}", "\\tfrac 12", "0.50", "-1/2", "-\\frac{1}{-2}", "\\sqrt{0.25}", "\\sqrt{\\frac{1}{4}}", "\\frac{\\sqrt{4}}{4}", "1:2"],
    ["5e-3", "\\frac{1}{200}", "5 \\times 10^{-3}", "0.005", "5\\cdot10^{-3}", "5*10^-3", "5E-3", "1/200", "0.5%", ".005", "5.0e-3", "5 e-3", "0.5\\%", "5\\times 10^{-2}"],
    ["1e3", "1000", "10^3", "10^{3}", "1,000", "1{,}000", "1\\,000", "1\\times10^3", "1.0e3", "1000.0", "1e+3", "1E3"],
    ["3", "3.", "3.0", "\\(3\\)", "\\[3\\]", "$3$", "3 cm", "3\\text{ cm}", "3 \\mathrm{~cm}", "3\\,\\mathrm{cm}", "3 \\text{cm}^2", "3\\mbox{ cm}", "3 meters", "3 units", "3^\\circ", "3^{\\circ}", "3\\degree", "3 degrees", "3 \\text{ degrees}", "\\mathbf{3}", "\\boxed{3}", "\\text{3}", "x=3", "x = 3", "\\$3", "3\\%", "3%", "6/2", "\\frac{6}{2}", "\\sqrt{9}", "1+2", "{3}", "3\\text{ liters}", "3 liter", "three", "3\\!", "3 \\quad", "\\mathrm{3}", "\\textbf{3}", "\\displaystyle 3", "3 m", "3 inches", "3 feet", "3 hours", "3\\text{ hours}", "3 \\text{m/s}", "+3", "03"],
    ["\\sqrt{12}", "2\\sqrt{3}", "2\\sqrt3", "sqrt(12)", "3.4641", "12^{1/2}", "12^.5", "\\sqrt{3}\\cdot2", "\\frac{6}{\\sqrt{3}}", "\\frac{6\\sqrt{3}}{3}", "2\\sqrt{3}.", "\\sqrt{4}\\sqrt{3}", "\\sqrt[3]{12}", "2√3", "\\sqrt{12.}", "3.46410161513775"],
    ["\\frac{\\sqrt{3}}{2}", "\\sqrt{3}/2", "\\frac{\\sqrt{3}}{2}.", "\\frac{\\sqrt3}2", "0.5\\sqrt{3}", "\\sqrt{\\frac{3}{4}}", "\\sqrt{0.75}", "\\frac{3}{2\\sqrt{3}}", "0.866025403784439", "0.8660", "\\frac12\\sqrt3", "\\cos 30^\\circ", "\\frac{\\sqrt{3}}{2} \\text{ cm}", "\\sqrt{3}/2."],
    ["1.5\\pi", "\\frac{3\\pi}{2}", "\\frac{3}{2}\\pi", "3\\pi/2", "1.5 \\pi", "\\pi+\\frac{\\pi}{2}", "4.712", "4.71238898038469", "\\frac{3\\pi}{2} \\text{ cm}", "1.50\\pi", "1.5pi", "1.5π", "\\frac{3 \\pi}{2}.", "270^\\circ", "3\\cdot\\frac{\\pi}{2}"],
    ["2\\pi", "2 \\pi", "2*pi", "\\pi+\\pi", "6.28", "6.2832", "\\pi 2", "2\\pi r", "2.0\\pi", "\\frac{4\\pi}{2}", "2\\pi\\text{ cm}", "2 \\pi \\mathrm{~cm}"],
    ["x", "\\sqrt{x^2}", "\\sqrt{x}^2", "(\\sqrt{x})^2", "\\sqrt{x}\\sqrt{x}", "|x|", "x+0", "\\frac{x^2}{x}", "2x/2", "x.", "X", "\\mathbf{x}", "\\mathrm{x}", "(x)", "x^{1}", "x^1", "\\left(x\\right)", "x*1", "1x", "\\vec{x}", "\\hat{x}", "\\bar x", "\\sqrt{x^4}/x"],
    ["\\sqrt{xy}", "\\sqrt{x}\\sqrt{y}", "\\sqrt{x}\\cdot\\sqrt{y}", "\\sqrt{yx}", "\\frac{xy}{\\sqrt{xy}}", "(xy)^.5"],
    ["\\sqrt{a^2b}", "\\sqrt{a^2}\\sqrt{b}", "a\\sqrt{b}", "|a|\\sqrt{b}", "\\sqrt{b a^2}", "\\sqrt{b}a"],
    ["\\ln(x^2)", "2\\ln(x)", "2\\ln x", "\\ln x^2", "\\ln(x)+\\ln(x)"],
    ["\\ln(2)", "ln(2)", "\\ln 2", "0.6931471805599453", "0.693", "\\frac{\\ln 4}{2}", "\\frac{\\ln(4)}{2}", "ln 2", "\\log 2", "-\\ln(1/2)", "\\ln(6)-\\ln(3)"],
    ["(x+1)^2", "x^2+2x+1", "x^2 + 2x + 1", "(1+x)(1+x)", "(x+1)(x+1)", "x^{2}+2x+1", "x(x+2)+1", "x*x+2x+1", "(x+1)^{2}", "\\left(x+1\\right)^2", "x^2+2x+1.", "x²+2x+1"],
    ["x^2-1", "(x-1)(x+1)", "\\frac{x^4-1}{x^2+1}", "-(1-x^2)", "-(1-x)(1+x)", "(x-1)\\cdot(x+1)", "x^2 - 1.0", "x^{2}-1"],
    ["(1,2)", "(1, 2)", "(1.0,2)", "\\left(1,2\\right)", "(2,1)", "[1,2]", "1,2", "(1,\\,2)", "\\{1,2\\}", "(1,2]", "[1,2)", "1 and 2", "1 or 2", "(1;2)", "(1,\\frac{4}{2})", "\\left( 1 , 2 \\right)", "(1,2).", "Point(1,2)", "Interval(1,2)", "Interval.open(1, 2)", "x=1,2", "\\langle 1,2\\rangle", "1, 2", "1\\text{ and }2", "1 \\text{ or } 2"],
    ["(0.5,\\frac{1}{3})", "(\\frac12,\\frac13)", "(1/2,1/3)", "(.5,1/3)", "[1/2,1/3]", "(\\frac{1}{2}, \\frac{1}{3})", "(0.5,0.333333)", "\\left(\\frac{1}{2},\\frac{1}{3}\\right)", "(50%,1/3)"],
    ["(\\pi,2)", "(\\pi, 2)", "(\\frac{2\\pi}{2},2)", "(3.14,2)", "(3.14159,2)", "(2,\\pi)", "[\\pi,2]", "\\left(\\pi,2\\right)", "(2\\pi/2,2)"],
    ["(-\\infty,3]\\cup[4,5)", "(-\\infty, 3] \\cup [4, 5)", "(-inf,3]U[4,5)", "[4,5)\\cup(-\\infty,3]", "\\left(-\\infty,3\\right]\\cup\\left[4,5\\right)", "(-\\infty,3)\\cup[4,5)", "(-\\infty,3] \\cup [4,5).", "(-oo,3] ∪ [4,5)"],
    ["\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{bmatrix}1&2\\\\3&4\\end{bmatrix}", "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "\\begin{bmatrix} 1 & 2 \\\\ 3 & 4 \\end{bmatrix}", "\\left[\\begin{array}{cc}1&2\\\\3&4\\end{array}\\right]", "\\begin{vmatrix}1&2\\\\3&4\\end{vmatrix}", "\\begin{matrix}1&2\\\\3&4\\end{matrix}", "\\begin{pmatrix}1&2\\\\4&3\\end{pmatrix}", "\\left(\\begin{array}{cc}1&2\\\\3&4\\end{array}\\right)", "[[1,2],[3,4]]", "\\begin{pmatrix}1&2\\\\3&4\\\\\\end{pmatrix}", "\\begin{smallmatrix}1&2\\\\3&4\\end{smallmatrix}", "\\begin{pmatrix}1.0&2\\\\3&4\\end{pmatrix}", "Matrix([[1,2],[3,4]])"],
    ["\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{bmatrix}1\\\\2\\end{bmatrix}", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}", "[1,2]", "(1,2)", "\\begin{pmatrix} 1 \\\\ -2 \\end{pmatrix}", "\\begin{pmatrix}\\frac{2}{2}\\\\2\\end{pmatrix}", "[1;2]", "[ 1; 2 ]", "\\binom{1}{2}"],
    ["\\{1,2,3\\}", "{1,2,3}", "\\{1, 2, 3\\}", "1,2,3", "\\{3,2,1\\}", "\\left\\{1,2,3\\right\\}", "(1,2,3)", "\\lbrace 1,2,3 \\rbrace", "\\{1\\}\\cup\\{2,3\\}"],
    ["x\\ne 3", "x\\neq 3", "x \\ne 3", "x≠3", "x \\not= 3", "x3", "x\\not=3", "x!=3"],
    ["x\\le 3", "x\\leq 3", "x \\leqslant 3", "x<=3", "x≤3", "3\\ge x", "x<3", "x \\lt 3", "x \\leq 3.0"],
    ["90", "90^\\circ", "90^{\\circ}", "90 degrees", "90\\degree", "90 \\text{ degrees}", "90^{\\mathrm{o}}", "90°", "90.0^\\circ", "\\angle A=90", "m\\angle A = 90^\\circ", "90 ^ \\circ", "90\\,^\\circ"],
    ["5 cm", "5 \\mathrm{~cm}", "5\\text{cm}", "5\\text{ cm}", "5cm", "5", "5\\,\\text{cm}", "5 \\mathrm{cm}", "5\\mbox{cm}", "5 \\operatorname{cm}", "5\\text{ centimeters}", "5 cm^2", "5\\text{ cm}^2", "5 \\mathrm{~cm}^{2}", "5 \\mathrm{~m}", "5\\ \\text{m}", "5 m", "5\\mathrm{m}", "5 \\mathrm{~km}", "5 \\mathrm{~inches}", "5 \\textit{cm}", "5 \\textsf{cm}", "5 \\texttt{cm}", "5 \\textrm{ cm}", "5\\;\\mathrm{units}", "5 \\text{ sq. units}"],
    ["2 million", "2000000", "2*10^6", "2,000,000", "2\\text{ million}", "2\\times10^6", "2e6", "2 \\cdot 10^{6}"],
    ["7 3/4", "7\\frac{3}{4}", "31/4", "7.75", "7 \\frac34", "7\\dfrac{3}{4}", "7+3/4", "\\frac{31}{4}", "7 3/4.", "-7\\frac{3}{4}"],
    ["\\text{yes}", "yes", "Yes", "no", "\\textbf{yes}", "\\mathrm{yes}", "\\text{Yes}", "\\text{ yes }", "YES", "\\mbox{yes}", "yes."],
    ["5!", "120", "5 \\cdot 24", "5 \\times 24", "5!!", "15", "4!*5", "\\frac{6!}{6}", "5! ", "5 * 24.0"],
    ["\\frac{a}{b}", "a/b", "\\frac ab", "a b^{-1}", "ab^-1", "a\\div b", "a\\cdot\\frac{1}{b}", "a:b", "\\cfrac{a}{b}", "{a\\over b}", "\\nicefrac{a}{b}", "\\frac{2a}{2b}"],
    ["\\alpha", "α", "alpha", "a", "\\alpha+0", "\\alpha\\alpha/\\alpha", "2\\alpha/2", "\\beta", "\\Alpha"],
    ["3+4i", "4i+3", "3 + 4i", "3+4*i", "3+4\\mathrm{i}", "3+4I", "3+4j", "(3+4i)", "3+4 i", "3+4\\sqrt{-1}", "5"],
    ["101_2", "101_{2}", "5_{10}", "5", "101", "101_{\\text{two}}", "101_{10}"],
    ["A", "(A)", "\\text{A}", "\\text{(A)}", "\\mathbf{A}", "\\textbf{(A)}", "A.", "a", "\\mathrm{A}", "\\textbf{A}", "\\mathbf{(A)}", "option A"],
    ["0.1+0.2", "0.3", "3/10", "\\frac{3}{10}", "0.30", "30%", "0.3000001", "3e-1"],
    ["1/3", "0.333", "0.3333", "\\frac13", "0.3333333333333333", "0.333333333333", "33.33%", "33.3%", "0.\\overline{3}", "33 1/3 %", "1/3."],
    ["2^3", "8", "2**3", "2^{3}", "2*2*2", "8.0", "\\sqrt{64}", "2^3.0", "2^3."],
    ["x^{10}", "x^10", "x^9 x", "x^9*x", "x^5x^5", "x^{5}x^{5}", "x^(10)"],
    ["\\frac{1}{x}", "1/x", "x^-1", "x^{-1}", "\\frac{x}{x^2}", "\\sqrt{\\frac{1}{x^2}}", "\\frac{1}{\\sqrt{x}}", "\\sqrt{\\frac{1}{x}}", "\\frac{\\sqrt{x}}{x}", "1/x."],
    ["e^x", "e**x", "\\exp(x)", "exp(x)", "e^{x}", "\\mathrm{e}^x"],
    ["\\sin x", "\\sin(x)", "sin(x)", "sin x", "\\sin{x}", "\\operatorname{sin}(x)"],
    ["-5", "- 5", "-5.0", "5", "--5", "(-5)", "-\\frac{10}{2}", "−5", "\\text{-}5", "-5.", "5-10"],
    ["12,345", "12345", "12{,}345", "12\\,345", "12345.0", "12,\\!345", "12.345", "1,2345", "12 345", "\\$12,345", "12,345\\text{ dollars}"],
    ["\\sqrt{3+2\\sqrt{2}}", "1+\\sqrt{2}", "2.414213562", "2.41421356237310", "\\sqrt{2}+1", "\\frac{1}{\\sqrt{2}-1}", "1+\\sqrt{2}."],
    ["\\frac{\\sqrt{5}-1}{2}", "\\frac{-1+\\sqrt{5}}{2}", "\\frac{2}{1+\\sqrt{5}}", "(sqrt(5)-1)/2", "0.5\\sqrt{5}-0.5", "0.618", "\\dfrac{\\sqrt5-1}{2}", "\\frac{\\sqrt{5}}{2}-\\frac{1}{2}", "\\frac{\\sqrt{5}-1}{2}."],
    ["0", "0.0", "-0", "\\emptyset", "\\varnothing", "", "none", "0.", "0^\\circ", " ", "{}", "()"],
    ["\\infty", "inf", "oo", "infinity", "+\\infty", "-\\infty", "nan", "∞"],
    ["\\frac{x+1}{2}", "(x+1)/2", "x/2+1/2", "0.5x+0.5", "\\frac{x}{2}+\\frac{1}{2}", "x+1/2", "\\frac12(x+1)", "(x+1)/2.", "0.5(x+1)"],
    ["n(n+1)/2", "\\frac{n(n+1)}{2}", "\\frac{n^2+n}{2}", "\\frac{1}{2}n(n+1)", "(n^2+n)/2", "0.5n(n+1)", "\\binom{n+1}{2}"],
    ["2x", "x2", "2*x", "x*2", "x+x", "2 x", "2\\cdot x", "2\\times x", "2X", "2.0x", "xx/x*2"],
    ["12:30", "12:30 pm", "12\\text{:}30", "1230", "12.5"],
    ["y=2x+1", "2x+1", "y = 2x + 1", "y=1+2x", "2x+1=y", "f(x)=2x+1", "2x+1."],
    ["x \\in (0,1)", "(0,1)", "0<x<1", "x\\in(0, 1)", "]0,1["],
    ["100\\%", "100%", "1", "100", "1.0"],
    ["\\overline{AB}", "AB", "\\overrightarrow{AB}", "ab", "BA", "\\widehat{AB}"],
    ["\\frac{1}{0}", "1/0", "0/0", "\\frac{0}{0}"],
    ["\\dfrac{7}{3}\\pi\\text{ cm}^3", "\\frac{7\\pi}{3}", "\\frac{7}{3}\\pi", "\\frac{7 \\pi}{3} \\mathrm{~cm}^3", "7pi/3"],
]
# Equal by mathematics; sympy does not see it, or rounds on the way.
DIFFERS = [["\\sqrt{3+2\\sqrt{2}}", "1.0+\\sqrt{2}"], ["(x-0.1)(x+0.1)", "x^2-0.01"], ["0.1x+0.2x", "0.3x"], ["0.1\\pi+0.2\\pi", "0.3\\pi"]]
SENTENCES = [
    "The answer is @.",
    "Therefore the value is \\(@\\).",
    "\\[@\\]",
    "So the answer is @.",
    "\\boxed{@}",
    "Thus, \\boxed{@}.",
    "We get @",
    "The final answer is $@$.",
    "x = @",
    "Answer: @",
    "answer: \\(@\\)",
    "First. Then the answers are @. Done",
    "@ is the answer.",
    "So \\[ x = @ \\]",
    "It must be @",
    "<think>a</think> so \\boxed{@}",
    "<think>a</think>\n\nThe answer is \\boxed{ @ }. Great",
    "$$\\boxed{@}$$",
    "Hence the answers are:\n\\( @ \\)",
    "**Answer:** @",
    "The value is **@**.",
    "#### @",
    "Step 1: x. Step 2: so \\boxed{@}",
    "answer is: $@$",
    "Therefore,\n\\[\n\\boxed{@}\n\\]",
    "which is equal to @.\n",
    "The answer is @!",
    "the area is @ square units.",
]
ATOMS = ["1", "2", "3", "7", "x", "y", "\\pi", "\\sqrt{2}", "\\sqrt{x}", "0.5", "\\frac{1}{3}", "(x+1)", "2.5", "\\sqrt{3}", "x^2", "\\frac{x}{2}", "1e-2", "4"]


def formula(depth):
    if depth == 0 or random.random() < 0.25:
        return random.choice(ATOMS)
    kind = random.random()
    if kind < 0.12:
        return f"\\sqrt{{{formula(depth - 1)}}}"
    if kind < 0.25:
        return f"\\frac{{{formula(depth - 1)}}}{{{formula(depth - 1)}}}"
    if kind < 0.32:
        return f"({formula(depth - 1)})^2"
    return formula(depth - 1) + random.choice(["+", "-", "*", " ", "/", " + ", "\\cdot "]) + formula(depth - 1)


def like(text):
    return random.choice([text + "+0", f"({text})*1", f"\\frac{{2({text})}}{{2}}", f"-(-({text}))", f"\\sqrt{{({text})^2}}", text.replace("0.5", "\\frac{1}{2}"), formula(1)])


HAND = [["Therefore the value is \\(12\\).", "12"], ["\\[12\\]", "12"], ["So the answer is \\frac{\\sqrt{3}}{2}.", "\\frac{\\sqrt{3}}{2}"], ["\\frac{1}{2}.", "0.5"], ["Matrix([[5]])", "\\begin{pmatrix}5\\end{pmatrix}"], ["Matrix([[5]])", "\\begin{pmatrix} 5 \\end{pmatrix}"],
        ["[5]", "\\begin{pmatrix}5\\end{pmatrix}"], ["[5]", "\\begin{pmatrix}6\\end{pmatrix}"], ["[1,2]", "\\begin{pmatrix}1\\\\2\\end{pmatrix}"], ["Matrix([[1],[2]])", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"], ["Matrix([[1, 2],[3,5]])", "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}"],
        ["Interval(1,2)", "[1,2]"], ["Interval.open(1,2)", "(1, 2)"], ["Interval.Ropen(1,2)", "[1,2)"], ["Interval.Lopen(1,2)", "[1,2)"], ["Point(1,2)", "(1,2)"], ["4(\\pi)", "4\\pi"], ["[\\pi,2]", "[3.14,2]"], ["\\pi,2", "3.14159,2"], ["(2\\pi)", "6.2832"], ["(\\pi,2)", "(3.1416,2)"],
        ["ln 2", "\\ln(2)"], ["sqrt 3", "\\sqrt{3}"], ["05\\pi", "5\\pi"], ["x = ()", " "], ["101_2", "101"], ["\\boxed{5e-3}", "\\frac{1}{200}"], ["\\boxed{\\sqrt{x^2}}", "x"], ["\\boxed{90\\degree}", "90"]]
PIECES = ["\\frac", "\\frac{1}{2}", "\\frac12", "\\sqrt", "\\sqrt{2}", "\\sqrt[3]{x}", "\\sqrt3", "{", "}", "{x}", "x", "1", "2 ", "\\pi", "\\pi ", "\\(", "\\)", "\\[", "\\]", "\\text{cm}", "\\text{ a b }",
          "\\mathrm{~cm}", "\\mbox{m}", "\\mathbf{x}", "\\mathbb{R}", "\\mathbb R", "\\begin{pmatrix}", "\\end{pmatrix}", "\\begin{bmatrix}", "\\end{bmatrix}", "&", "\\\\", "\\\\ ", "\\begin{array}{cc}", "\\end{array}",
          "\\begin{cases}", "\\end{cases}", "\\ne", "\\neq", "\\degree", "\\circ", "^", "_", "-", "--", "'", "''", "~", "[", "]", "(", ")", ",", "\\,", "\\;", "\\ ", "\\!", "\\quad", "\\left", "\\right", "\n", "\n\n", " ",
          "\\cdot", "\\times", "\\overline{AB}", "\\vec{v}", "\\operatorname{lcm}", "\\hspace{1cm}", "\\hspace*{2cm}", "\\color{red}", "\\textcolor{red}{5}", "\\begin{align*}", "\\end{align*}", "\\boxed{5}", "\\dots",
          "\\infty", "\\{", "\\}", "\\", "\\end", "\\begin", "\\not=", "\\sin x", "\\alpha", "\\mathcal{L}", "水", "π", "\\overline", "\\text", "\\mathbf", "\\underline{ab}", "\\ket{a}", "\\braket", "\\hphantom{1}",
          "\\binom{5}{2}", "\\begin{pmatrix} 1 & 22 \\\\ -3 & 4 \\end{pmatrix}", "\\begin{vmatrix}a&b\\end{vmatrix}", "\\equiv", "\\le"]


def plain(text):
    try:
        return latex2text.LatexNodes2Text().latex_to_text(text)
    except Exception:
        return None


def row(judge, answer, answers):
    return "".join(str(int(bool(judge(answer, truth)))) for truth in answers)


with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    groups = [{"answers": g, "prime_math": [row(prime_math.grade_answer, a, g) for a in g], "mathruler": [row(mathruler.grade_answer, a, g) for a in g]} for g in GROUPS]
    pairs = []
    for f in [formula(2) for _ in range(250)]:
        for a, b in itertools.permutations([f, like(f)]):
            pairs.append([a, b, bool(prime_math.grade_answer(a, b)), bool(mathruler.grade_answer(a, b))])
    differs = [[a, b, bool(prime_math.grade_answer(a, b)), bool(mathruler.grade_answer(a, b))] for a, b in DIFFERS]
    texts = []
    sentences = []
    for _ in range(600):
        group = random.choice(GROUPS)
        sentences.append([random.choice(SENTENCES).replace("@", random.choice(group)), random.choice(group)])
    for text, truth in HAND + sentences:
        correct, _, found = prime_math.compute_score(text, truth)
        texts.append([text, truth, found, bool(correct), geo3k.compute_score(text, truth)])
    pieces = ["".join(random.choice(PIECES) for _ in range(random.randint(1, random.choice([2, 4, 9])))) for _ in range(600)]
    latex = [[text, plain(text)] for text in pieces]
out = {"groups": groups, "pairs": pairs, "differs": differs, "texts": texts, "latex": latex}
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(out, ensure_ascii=False).replace("], [", "],\n[").replace("}, {", "},\n{"))
print(sum(len(g) ** 2 for g in GROUPS), "pairs of spellings,", len(pairs), "of formulas,", len(texts), "texts,", sum(t[3] for t in texts), "right")
