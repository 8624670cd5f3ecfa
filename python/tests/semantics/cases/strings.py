"""Strings: methods, f-strings, format, bytes."""

import re
import string
import textwrap

from ..case import ANY, case
from ..values import x


@case(lambda: (x(), "World"), lambda: (x(), "there"))
def f_strings(a, name):
    n, f = 42, 3.14159
    return a, f"Hello {name}!", f"{n:05d}|{f:.2f}|{n:#x}|{name!r:>10}|{n:,}", f"{n=} {f=:.1f}", f"{{}} {n}"


@case(x)
def f_string_nested(a):
    width, n = 8, 5
    return f"{n:>{width}}|{n:{'<' if n else '>'}{width}}|", f"{'a' 'b'}", f"{[m for m in range(3)]}", f"{(lambda v: v * 2)(3)}", a


@case(x)
def f_string_conversion(a):
    text = "é\n"
    return f"{text!r} {text!a} {text!s}", f"{None} {True} {1.0} {(1, 'p')} {{'k': 1}}", a


@case(x)
def f_string_bad_spec(a):
    return f"{'text':d}"


@case(x)
def format_method(a):
    return "{} {1}".format(1, 2) if False else "{0} {1} {0} {k:>4}".format("p", "q", k=3), "{p.real} {q[0]}".format(p=3, q=[9]), a


@case(x)
def format_method_fails(a):
    return "{} {1}".format(1, 2)


@case(x)
def percent(a):
    return "%d %s %r %5.2f %x %%" % (3, "p", "q", 2.5, 255), "%(k)s" % {"k": 1}, "%s" % ((1, 2),), a


@case(x)
def percent_fails(a):
    return "%d %d" % (1,)


@case(x)
def format_builtin(a):
    return format(3.14159, ".3f"), format(255, "b"), format("p", ">5"), format(1234567, ","), format(0.5, "%"), a


@case(x)
def split_and_join(a):
    return (
        "a,b,,c".split(","), " p  q ".split(), "a-b-c".rsplit("-", 1), "x".join(["1", "2"]), "p=q=r".partition("="),
        "a\nb".splitlines(), a,
    )  # fmt: skip


@case(x)
def join_fails(a):
    return ",".join(["p", 1])


@case(x)
def searching(a):
    s = "hello world"
    return s.find("o"), s.rfind("o"), s.find("z"), s.count("l"), s.index("w"), "wor" in s, s.startswith(("x", "he")), s.endswith("ld"), a


@case(x)
def index_fails(a):
    return "hello".index("z")


@case(x)
def case_and_padding(a):
    s = "heLLo"
    return s.upper(), s.lower(), s.title(), s.swapcase(), s.capitalize(), s.center(9, "*"), s.ljust(7) + "|", s.zfill(8), "ß".casefold(), a


@case(x)
def stripping(a):
    return "  p ".strip(), "xxpx".lstrip("x"), "pyy".rstrip("y"), "prefix_p".removeprefix("prefix_"), "p.py".removesuffix(".py"), a


@case(x)
def predicates(a):
    return "12".isdigit(), "p1".isalnum(), "".isalpha(), " ".isspace(), "P".isupper(), "p_1".isidentifier(), a


@case(x)
def replacing(a):
    table = str.maketrans("ab", "xy", "c")
    return "aaa".replace("a", "b", 2), "abcab".translate(table), "t\tb".expandtabs(4), a


@case(x)
def string_operators(a):
    return "p" + "q", "pq" * 3, "p" < "q", "abc"[1], "abc"[-1], len("abc"), "b" in "abc", list("pq"), sorted("hello"), max("hello"), a


@case(x)
def string_index_fails(a):
    return "abc"[5]


@case(x)
def string_plus_number(a):
    return "p" + 1


@case(x)
def characters(a):
    return ord("a"), chr(98), ascii("é"), "\N{BULLET}", "é".encode(), b"\xc3\xa9".decode("utf-8"), "p".encode("ascii").hex(), a


@case(x)
def decode_fails(a):
    return b"\xff".decode("utf-8")


@case(x)
def numbers_to_text(a):
    return (
        str(1.0), repr(0.1), str(True), str(None), str([1, "p"]), repr({"k": (1,)}), str(1e100), str(float("nan")), hex(255),
        oct(8), bin(5), a,
    )  # fmt: skip


@case(x)
def text_to_numbers(a):
    return int("12"), int("ff", 16), int(" 7 "), float("1e3"), float("inf"), complex("1+2j"), int("1_000"), a


@case(x)
def text_to_number_fails(a):
    return int("1.5")


@case(x)
def interned(a):
    p, q = "name", "na" + "me"
    return p is q, p == q, a


@case(x)
def building_in_a_loop(a):
    s = ""
    for n in range(4):
        s += str(n) + ","
    return s[:-1], a * len(s)


@case(x, graphs=ANY)
def regular_expressions(a):
    match = re.match(r"(\w+)-(\d+)", "layer-12")
    return a * int(match.group(2)), match.groups(), re.sub(r"\d", "#", "a1b2"), re.findall("[ab]", "abcab"), re.split(r"\s+", "p q")


@case(x, graphs=ANY)
def templates(a):
    return string.Template("$p is ${q}").substitute(p=1, q=2), string.ascii_lowercase[:3], textwrap.dedent("  p\n  q"), a


@case(lambda: (x(), "layer.3.weight"), lambda: (x(), "layer.4.weight"), lambda: (x(), "bias"))
def control_by_text(a, name):
    if name.startswith("layer.") and name.endswith("weight"):
        return a * int(name.split(".")[1])
    return a


@case(lambda: (x(), "relu"), lambda: (x(), "double"), lambda: (x(), "other"))
def dispatch_by_text(a, name):
    table = {"relu": lambda v: v, "double": lambda v: v * 2}
    return table[name](a)


@case(x)
def multiline(a):
    text = """one
    two"""
    return text, r"\n", "a" "b", b"c" b"d", a


@case(x)
def string_methods_by_class(a):
    return str.upper("p"), list(map(str.strip, [" p", "q "])), str(b"x", "utf-8"), str(), "%s" % a.__class__.__name__


class Endless:
    """A sequence by the old protocol, without an end."""

    def __init__(self, n):
        self.n = n

    def __getitem__(self, place):
        return "item", place

    def __str__(self):
        return f"endless {self.n}"


@case(lambda: (x(), Endless(3)), lambda: (x(), Endless(4)), graphs=ANY)
def format_does_not_iterate(a, thing):
    return "{0.n} {0[k]}".format(thing), "{} {!s:>12}".format(thing, thing), [thing].count(thing), (1, thing).index(thing), a
