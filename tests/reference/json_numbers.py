"""How transformers' chat templates write the numbers of rows: writes json_numbers.json.

Each case is JSON text, the `tojson` of what Python's json module reads from it, and the value as `{{ x }}` writes it.
"""
import json
import pathlib
import random

from transformers.utils import chat_template_utils

draw = random.Random(11)
NUMBERS = ["0", "-0", "-0.0", "0.0", "0e5", "1E5", "1e-5", "1e5", "1e15", "1e16", "1e22", "1e23", "0.1", "1e-7", "0.0001",
           "0.00001", "5e-324", "1.7976931348623157e308", "2.5", "100.0", "123456789012345678", "9223372036854775807",
           "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
           "18446744073709551616", "-18446744073709551616", "100000000000000000000", "1" + "0" * 300, "-" + "7" * 300]
for _ in range(120):
    NUMBERS.append(str(draw.choice([-1, 1]) * draw.getrandbits(draw.randrange(1, 220))))
    NUMBERS.append(repr(draw.uniform(-10, 10) * 10.0 ** draw.randrange(-30, 30)))
    NUMBERS.append(f"{draw.uniform(-9, 9):.{draw.randrange(1, 25)}f}e{draw.randrange(-20, 20)}")


def main():
    template = chat_template_utils._compile_jinja_template("{{ x | tojson }}|{{ x }}")
    cases = []
    for i, number in enumerate(NUMBERS):
        text = number if i % 3 else f'{{"maximum": {number}, "enum": ["{number}"]}}'
        cases.append({"text": text, "rendered": template.render(x=json.loads(text))})
    path = pathlib.Path(__file__).parent / "json_numbers.json"
    path.write_text(json.dumps(cases, separators=(",", ":"), indent=0) + "\n")
    print(len(cases))


main()
