"""Steps of the tensor core of Hopper for bfloat16, in rational numbers, for tests/device/cuda.

    python tensor_core.py

The rule is what MMA-Sim (arXiv 2511.10909) found, with two changes that an H100 showed: the largest exponent is at least
-133, and a sum of zero is +0.
"""

import json
import os
import random
from fractions import Fraction


def parts(bits, width):
    """Sign, whole significand and exponent of the significand's first place before the point."""
    exponent, significand = bits >> width & 255, bits & (1 << width) - 1
    if exponent:
        return bits >> (width + 8), significand | 1 << width, exponent - 127
    return bits >> (width + 8), significand, -126


def value(bits, width):
    sign, significand, exponent = parts(bits, width)
    return (-1) ** sign * Fraction(significand, 1 << width) * Fraction(2) ** exponent


def cut(x, unit):
    """x as a multiple of unit, towards zero."""
    whole = abs(x) / unit
    return (whole.numerator // whole.denominator) * (1 if x >= 0 else -1)


def float_towards_zero(x):
    if x == 0:
        return 0
    sign, size, exponent = x < 0, abs(x), -126
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    if exponent > 127:
        return sign << 31 | 0x7F800000
    significand = cut(size, Fraction(2) ** (exponent - 23))
    if significand == 0:
        return 0
    return sign << 31 | ((exponent + 127) << 23 | significand & 0x7FFFFF if significand >> 23 else significand)


def step(a, b, c):
    terms = []
    for x, y in zip(a, b):
        product = value(x, 7) * value(y, 7)
        if product:
            terms.append((product, parts(x, 7)[2] + parts(y, 7)[2]))
    if value(c, 23):
        terms.append((value(c, 23), parts(c, 23)[2]))
    unit = Fraction(2) ** (max([-133] + [e for _, e in terms]) - 25)
    return float_towards_zero(sum(cut(x, unit) for x, _ in terms) * unit)


def main():
    random.seed(5)
    cases = []
    for low, high, c_low, c_high in [(120, 134, 118, 140), (1, 254, 1, 254), (55, 75, 0, 25), (0, 2, 0, 3), (100, 140, 150, 175),
                                     (180, 190, 245, 254), (120, 121, 0, 0)]:
        def bf16():
            return random.getrandbits(1) << 15 | random.randint(low, high) << 7 | random.getrandbits(7)
        for k in range(24):
            a, b = [bf16() for _ in range(16)], [bf16() for _ in range(16)]
            if k % 3 == 1:  # almost everything cancels
                for i in range(0, 16, 2):
                    a[i + 1], b[i + 1] = a[i], b[i] ^ 0x8000
                b[15] ^= 1
            if k % 4 == 2:
                a = [x if random.random() < 0.3 else x & 0x8000 for x in a]
            c = random.getrandbits(1) << 31 | random.randint(c_low, c_high) << 23 | random.getrandbits(23)
            cases.append({"a": a, "b": b, "c": c, "d": step(a, b, c)})
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "tensor_core.json"), "w") as f:
        json.dump({"cases": cases}, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
