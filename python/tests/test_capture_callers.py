"""What looks at its callers: loggers, warnings and tracebacks tell the program's own lines."""

import logging
import traceback
import typing
import warnings

import pytest
import torch
from capturing import outcome
from compare import assert_same
from oxytorch import _oxytorch

LOGGER = logging.getLogger("oxytorch.tests.callers")


@pytest.fixture
def records():
    found = []

    class Keep(logging.Handler):
        def emit(self, record):
            found.append((record.levelname, record.getMessage(), record.funcName, record.lineno, record.pathname))

    handler = Keep()
    LOGGER.addHandler(handler)
    LOGGER.propagate = False
    yield found
    LOGGER.removeHandler(handler)
    LOGGER.setLevel(logging.NOTSET)


def said(n):
    LOGGER.info("said %d", n)
    return n


def speaking(a, n):
    LOGGER.debug("more")
    LOGGER.log(logging.WARNING, "loud")
    return a * said(n) + 1


def test_lines_of_log_records(records):
    captured = _oxytorch.capture(speaking)
    for n in (1, 1, 2):
        for level in (logging.INFO, logging.DEBUG, logging.ERROR):
            LOGGER.setLevel(level)
            a = torch.randn(3)
            want, told = speaking(a, n), records.copy()
            records.clear()
            assert_same(captured(a, n), want)
            assert records == told
            records.clear()


def test_a_logger_that_says_nothing_is_no_break(records):
    LOGGER.setLevel(logging.ERROR)
    captured = _oxytorch.capture(lambda a: (LOGGER.debug("no"), LOGGER.info("no %s", a), a + 1)[-1], fullgraph=True)
    for _ in range(3):
        a = torch.randn(3)
        assert_same(captured(a), a + 1)
    assert captured.stats()["traced"] == 1 and records == []


def warned(n):
    warnings.warn(f"here {n}", stacklevel=1)
    warnings.warn(f"there {n}", DeprecationWarning, stacklevel=2)
    return n


def warning(a, n):
    return a * warned(n)


def test_lines_and_modules_of_warnings():
    captured = _oxytorch.capture(warning)
    for n in (1, 1, 2):
        told = []
        for function in (warning, captured):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                assert_same(function(torch.ones(3), n), torch.ones(3) * n)
            told.append([(str(w.message), w.filename, w.lineno) for w in found if "oxytorch" not in str(w.message)])
        assert told[0] == told[1] and len(told[0]) == 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", module=__name__)
            captured(torch.ones(3), n)


def sized(a, n):
    torch._check_is_size(n)
    return a * n


def sized_in_silence(a, n):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sized(a * 2, n)


def test_what_torch_gives_up_is_told_without_a_break():
    """By the filters of the moment, in each call."""
    captured, silent = _oxytorch.capture(sized), _oxytorch.capture(sized_in_silence)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            assert_same(silent(torch.ones(3), 2), torch.ones(3) * 4)
    for action in ("error", "always", "always", "ignore", "error", "always"):
        outcomes = []
        for function in (sized, captured):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter(action)
                result, raised = outcome(function, torch.ones(3), 2)
            outcomes.append((raised, [(str(w.message), w.filename, w.lineno) for w in found]))
        assert outcomes[0] == outcomes[1]
        assert raised or torch.equal(result, torch.ones(3) * 2)
    assert captured.stats()["breaks"] == [] and captured.stats()["traced"] == 2


def quiet(a, n):
    b = a + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        b = b * warned(n)
    return b


def test_filters_inside():
    captured = _oxytorch.capture(quiet)
    for _ in range(3):
        before = list(warnings.filters)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="here|there")
            assert_same(captured(torch.ones(3), 2), torch.full((3,), 4.0))
        assert list(warnings.filters) == before
    assert "leave to Python" not in captured.show()


class Stop(ValueError):
    pass


def raising(n):
    if n > 1:
        error = Stop(n)
        error.add_note(f"of {n}")
        raise error
    return n


def again(a, n):
    try:
        return a * raising(n)
    except Stop:
        if n == 3:
            raise
    return a


def lines(function, *args):
    try:
        return function(*args)
    except Stop as error:
        return [(at.name, at.lineno) for at in traceback.extract_tb(error.__traceback__)][1:], error.__notes__


def test_an_exception_that_is_raised_again_tells_its_line_once():
    captured = _oxytorch.capture(again)
    for n in (1, 2, 3, 3, 2):
        a = torch.randn(3)
        assert_same(lines(captured, a, n), lines(again, a, n))


def test_a_warning_that_is_an_error_tells_its_lines_once():
    def told(function):
        with warnings.catch_warnings(), pytest.raises(UserWarning) as raised:
            warnings.filterwarnings("error", message="here")
            function(torch.ones(3), 1)
        return [(at.name, at.lineno) for at in traceback.extract_tb(raised.value.__traceback__)][1:]

    captured = _oxytorch.capture(warning)
    for _ in range(3):
        assert told(captured) == told(warning)


class Pair(typing.NamedTuple):
    value: torch.Tensor
    times: int = 2


class Options(typing.TypedDict, total=False):
    scale: float


def test_parts_and_sums_of_named_tuples():
    def step(pair, a):
        own = Pair(a, 3)
        return pair[:1], own[1:] + (1,), (0,) + own, pair + own, Options(scale=2.0), own[::-1]

    captured = _oxytorch.capture(step, fullgraph=True)
    for _ in range(3):
        pair, a = Pair(torch.randn(3)), torch.randn(3)
        assert_same(captured(pair, a), step(pair, a))


ELSEWHERE = """
import collections, enum, inspect, sys, traceback, types, typing
import torch

def asked():
    frame = sys._getframe(1)
    return frame.f_code.co_name, frame.f_globals["__name__"], frame.f_lineno

def asked_by_another():
    return sys._getframe(2).f_code.co_name

def other():
    return asked_by_another()

def variables(depth=1):
    return {name: str(value) for name, value in sys._getframe(depth).f_locals.items()}

def behind(a, c):
    d = a + c
    return variables(2), variables()
"""


@pytest.mark.parametrize(
    "found",
    [
        "asked()",
        "other()",
        "variables()",
        "behind(b, 3)",
        "[variables(), b.sum() > 0]",
        "(lambda: sys._getframe(1).f_code.co_name)()",
        "inspect.stack()[0].function",
        "traceback.extract_stack()[-1].name",
        "sys._getframe().f_globals['__name__']",
        "collections.namedtuple('Made', 'a b').__module__",
        "typing.NamedTuple('Made', [('a', int)]).__module__",
        "typing.NewType('Made', int).__module__",
        "typing.TypeVar('Made').__module__",
        "enum.Enum('Made', 'A B').__module__",
        "type('Made', (), {}).__module__",
        "types.new_class('Made').__module__",
    ],
)
def test_the_caller_is_the_function_that_calls(found):
    names = {"__name__": "elsewhere"}
    exec(ELSEWHERE + f"def finding(a):\n    b = a + 1\n    found = {found}\n    return b * 2, found\n", names)
    captured = _oxytorch.capture(names["finding"])
    for _ in range(3):
        a = torch.randn(3)
        assert_same(captured(a), names["finding"](a))


class Unbound(type):
    __call__ = dict


class Made(metaclass=Unbound):
    pass


def test_what_a_metaclass_calls_is_not_always_bound():
    def step(a):
        return Made(p=a), Made([("q", 1)])

    captured = _oxytorch.capture(step, fullgraph=True)
    for _ in range(2):
        a = torch.randn(3)
        assert_same(captured(a), step(a))
