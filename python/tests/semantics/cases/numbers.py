"""Numbers: integers, floats, complex, bits, rounding, math."""

import decimal
import fractions
import math

from ..case import ANY, case
from ..values import x


@case(lambda: (x(), 7, 3), lambda: (x(), -7, 3), lambda: (x(), 7, -3))
def integer_division(a, n, m):
    return a * (n // m), n % m, divmod(n, m), n / m, -n // m


@case(lambda: (x(), 7.5, 2.0), lambda: (x(), -7.5, 2.0))
def float_division(a, n, m):
    return a * (n // m), n % m, divmod(n, m), n / m


@case(x)
def division_by_zero(a):
    return 1 // 0


@case(x)
def float_division_by_zero(a):
    return 1.0 / 0


@case(x)
def modulo_by_zero(a):
    return 5 % 0


@case(x)
def powers(a):
    return 2**10, 2**-1, (-8) ** 2, 2.5**2, pow(3, 4, 5), 0**0, 10**20, a


@case(x)
def big_integers(a):
    n = 2**100
    return n, n % 1000, n >> 90, -n // 7, n.bit_length(), len(str(n)), a


@case(x)
def bits(a):
    return 6 & 3, 6 | 3, 6 ^ 3, ~6, 1 << 5, 100 >> 2, -1 >> 3, (5).bit_count(), a


@case(x)
def negative_shift(a):
    return 1 << -1


@case(x)
def rounding(a):
    return (
        round(2.5), round(3.5), round(-2.5), round(2.675, 2), round(1234, -2), round(1.0), type(round(1.5)).__name__,
        type(round(1.5, 1)).__name__, a,
    )  # fmt: skip


@case(x)
def conversions(a):
    return int(2.9), int(-2.9), float(3), bool(0.0), complex(1, 2), int(True), float("nan") != float("nan"), a


@case(x)
def float_facts(a):
    return 0.1 + 0.2, 1e308 * 10, -0.0, (0.5).is_integer(), (0.75).as_integer_ratio(), (255.0).hex(), math.nan is math.nan, a


@case(x)
def complex_numbers(a):
    z = 3 + 4j
    return z * z, abs(z), z.real, z.imag, z.conjugate(), z == complex(3, 4), z / 2, a


@case(x)
def complex_order(a):
    return 1j < 2j


@case(x)
def booleans(a):
    return (
        True + True, True * 3, False == 0, True is True, isinstance(True, int), sum([True, False, True]), not True, True & False,
        True ^ True, a,
    )  # fmt: skip


@case(lambda: (x(), 5), lambda: (x(), 15), lambda: (x(), 25))
def comparisons(a, n):
    if 10 < n <= 20:
        return a * 2
    return a if n < 10 else -a


@case(x)
def mixed_comparison(a):
    return 1 == 1.0, 1 < 1.5, True == 1, 2**53 == float(2**53), 1 == "1", None == 0, a


@case(x)
def wrong_comparison(a):
    return 1 < "2"


@case(lambda: (x(), 2.0), lambda: (x(), 3.0))
def math_functions(a, v):
    return a * math.floor(v + 0.5), math.sqrt(v), math.ceil(v), math.log(v), math.exp(v), math.sin(v), math.pow(v, 2), math.hypot(3, 4)


@case(x)
def math_on_integers(a):
    return math.gcd(12, 18), math.lcm(4, 6), math.factorial(5), math.comb(5, 2), math.isqrt(17), math.prod([1, 2, 3]), math.perm(4, 2), a


@case(x)
def math_tests(a):
    return (
        math.isnan(math.nan), math.isinf(math.inf), math.isclose(0.1 + 0.2, 0.3), math.copysign(1, -0.0), math.fmod(-5, 3),
        math.modf(2.5), math.trunc(-2.5), a,
    )  # fmt: skip


@case(x)
def math_constants(a):
    return math.pi, math.e, math.tau, math.inf, a


@case(x)
def math_domain(a):
    return math.sqrt(-1)


@case(x)
def math_log_of_zero(a):
    return math.log(0)


@case(x)
def math_wrong_type(a):
    return math.sqrt("4")


@case(x)
def attributes_of_numbers(a):
    return (3).real, (3).numerator, (2.5).imag, (7).to_bytes(2, "big"), int.from_bytes(b"\x01\x00", "big"), a


@case(x, graphs=ANY)
def fractions_and_decimals(a):
    half = fractions.Fraction(1, 2)
    return half + 1, half * half, float(half), decimal.Decimal("1.10") + 1, str(decimal.Decimal(1) / 8), a


@case(lambda: (x(), 3), lambda: (x(), 3.0), lambda: (x(), True))
def type_of_a_number_is_guarded(a, n):
    return a * n, type(n).__name__, isinstance(n, int)


@case(lambda: (x(), 0.0), lambda: (x(), -0.0), lambda: (x(), 0))
def sign_of_zero_is_guarded(a, n):
    return a, math.copysign(1, n), str(n)


@case(lambda: (x(), float("nan")), lambda: (x(), 1.0))
def not_a_number_is_guarded(a, n):
    return a, n == n, n != n, n < 1


@case(lambda: (x(), 1), lambda: (x(), 10**30))
def large_number_is_guarded(a, n):
    return a, n * 2, n % 7


@case(x)
def integer_parsing_of_literals(a):
    return 0xFF, 0o17, 0b101, 1_000, 1e3, 1j, a


@case(x)
def ranges(a):
    r = range(2, 20, 3)
    return len(r), r[2], r[-1], 5 in r, 6 in r, list(r)[:2], r.index(8), r == range(2, 19, 3), list(reversed(r))[0], r.start, r.step, a


@case(x)
def range_out_of_bounds(a):
    return range(3)[5]


@case(lambda: (x(), 4), lambda: (x(), 0), lambda: (x(), 1))
def counted_loop(a, n):
    total = a
    for k in range(1, n):
        total = total + a * k
    return total


@case(x)
def bankers_and_sums(a):
    return sum([0.1] * 10), math.fsum([0.1] * 10), sum([[1], [2]], []), sum(range(101)), a


@case(x)
def hashes(a):
    return hash(1) == hash(1.0), hash(-1), hash(2**61 - 1), hash((1, 2)) == hash((1, 2)), hash("p") == hash("p"), a


@case(x)
def wrong_operand(a):
    return 1 + None


@case(x, graphs=ANY)
def numbers_of_all_kinds_are_equal(a):
    numbers = (2, 2.0, 2 + 0j, decimal.Decimal(2), fractions.Fraction(2))
    return a, [[one == other for other in numbers] for one in numbers], decimal.Decimal(1) < fractions.Fraction(3, 2)
