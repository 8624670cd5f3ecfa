"""What is no ordinary function: each does what plain Python does, or says what it does instead."""

import asyncio
import contextlib
import operator
import signal
import sys
import threading
import traceback
import warnings

import pytest
import torch

import oxytorch


def x():
    return torch.tensor([[1.0, -2.0], [3.0, 4.0]])


def calls(compiled, function, *args):
    """Three calls, each compared with the plain function's."""
    for _ in range(3):
        torch.testing.assert_close(compiled(*args), function(*args))


def raises(a):
    b = a + 1
    raise KeyError("mine", b.shape[0])


def test_a_function_that_raises():
    compiled = oxytorch.compile(raises)
    for _ in range(3):
        with pytest.raises(KeyError) as caught:
            compiled(x())
        assert caught.value.args == ("mine", 2)
        names = [entry.name for entry in caught.traceback]
        assert "raises" in names


def test_a_function_that_raises_what_torch_raises():
    def wrong(a):
        return a @ torch.ones(3, 3)

    with pytest.raises(RuntimeError) as plain:
        wrong(x())
    compiled = oxytorch.compile(wrong)
    for _ in range(3):
        with pytest.raises(RuntimeError) as caught:
            compiled(x())
        assert str(caught.value) == str(plain.value)


@pytest.mark.parametrize("thing", [3, "text", None, [1]], ids=repr)
def test_what_cannot_be_called(thing):
    if thing is None:  # torch.compile's form as a decorator with arguments
        assert callable(oxytorch.compile(thing))
        return
    with pytest.raises((TypeError, RuntimeError)) as caught:
        oxytorch.compile(thing)
    assert repr(thing) in str(caught.value)


@pytest.mark.parametrize("builtin", [abs, operator.neg, torch.relu, torch.Tensor.abs], ids=lambda f: f.__name__)
def test_functions_of_c(builtin):
    calls(oxytorch.compile(builtin), builtin, x())


def test_len_is_what_it_is():
    compiled = oxytorch.compile(len)
    assert [compiled([1, 2]), compiled([]), compiled(x())] == [2, 0, 2]
    with pytest.raises(TypeError):
        compiled(3)


def test_a_generator_function():
    log = []

    def several(a):
        log.append("begin")
        yield a + 1
        log.append("middle")
        yield a * 2

    compiled = oxytorch.compile(several)
    for _ in range(3):
        made = compiled(x())
        assert log == []
        torch.testing.assert_close(list(made), [x() + 1, x() * 2])
        assert log == ["begin", "middle"]
        log.clear()


def test_an_async_function():
    async def later(a):
        await asyncio.sleep(0)
        return a * 2

    compiled = oxytorch.compile(later)
    for _ in range(3):
        torch.testing.assert_close(asyncio.run(compiled(x())), x() * 2)


def test_a_recursive_function():
    def power(a, n):
        return a if n == 0 else power(a * 2, n - 1)

    calls(oxytorch.compile(power), power, x(), 5)


def test_recursion_without_an_end():
    def forever(a, n):
        return forever(a, n + 1)

    compiled = oxytorch.compile(forever)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            with pytest.raises(RecursionError):
                compiled(x(), 0)
    calls(oxytorch.compile(abs), abs, x())


class Doubled:
    def __init__(self, a):
        self.a = a * 2


def test_a_class():
    compiled = oxytorch.compile(Doubled)
    for _ in range(3):
        made = compiled(x())
        assert type(made) is Doubled
        torch.testing.assert_close(made.a, x() * 2)


def from_exec():
    scope = {}
    exec("def added(a, n=2):\n    return a * n + 1", scope)
    return scope["added"]


def from_eval():
    return eval("lambda a: (a - 1).abs()")


def from_a_list():
    return [lambda a: a + n for n in range(3)][1]


def typed_in():
    code = compile("def shown(a):\n    return a.sum() * 3", "<stdin>", "exec")
    scope = {"__name__": "__main__"}
    exec(code, scope)
    return scope["shown"]


@pytest.mark.parametrize("make", [from_exec, from_eval, from_a_list, typed_in], ids=lambda f: f.__name__)
def test_code_without_source(make):
    function = make()
    calls(oxytorch.compile(function), function, x())


def test_a_huge_function():
    lines = "\n".join(f"    b = b * {1 + n % 3}.5 - {n % 7}" for n in range(1500))
    scope = {}
    exec(f"def huge(a):\n    b = a / 2\n{lines}\n    return b.clamp(-1, 1)", scope)
    huge = scope["huge"]
    compiled = oxytorch.compile(huge)
    for _ in range(2):
        torch.testing.assert_close(compiled(x()), huge(x()))


@contextlib.contextmanager
def interrupted(after):
    """Ctrl-C in a while: a signal, as the terminal sends one."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, after)
    try:
        with warnings.catch_warnings(), pytest.raises(KeyboardInterrupt):
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_interrupted_call_leaves_everything_usable():
    log = []

    def waits(a, forever):
        log.append("begin")
        b = a + 1
        while forever:
            forever = not forever
            forever = not forever
        log.append("end")
        return b * 2

    compiled = oxytorch.compile(waits)
    with interrupted(0.3):
        compiled(x(), True)
    assert log == ["begin"]
    for _ in range(3):
        torch.testing.assert_close(compiled(x(), False), (x() + 1) * 2)
    assert log == ["begin"] + ["begin", "end"] * 3


def test_no_interrupt_is_lost(monkeypatch):
    """Whatever is at work when it comes: names of types are read, and texts written, where CPython lets handlers run."""
    model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 4)) for _ in range(12)])
    rung, caught, unraisable = [], [], []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: unraisable.append((lost.err_msg, repr(lost.object))))

    def alarm(_, frame):
        rung.append("".join(traceback.format_stack(frame, 5)))
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGVTALRM, alarm)
    lost = []
    try:
        for step in range(1, 40):
            compiled = oxytorch.compile(model)
            try:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0.001 * step)
                compiled(torch.ones(2, 4))
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            except KeyboardInterrupt:
                caught.append(step)
            if len(rung) > len(caught) + len(lost):
                lost.append((rung[-1], list(unraisable)))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert not lost and len(rung) > 5


def test_an_interrupt_is_no_part_of_the_trace():
    """It goes through the program's own clauses, and later calls do not raise it again."""
    log = []

    def waits(a, steps):
        try:
            for step in range(steps):
                a = a + 0
            return a * 2
        finally:
            log.append("finally")

    compiled = oxytorch.compile(waits)
    with interrupted(0.3):
        compiled(x(), 10**7)
    assert log == ["finally"]
    for _ in range(3):
        torch.testing.assert_close(compiled(x(), 2), x() * 2)
    assert log == ["finally"] * 4


# Long after a call has begun, and long before the machine is through with so many rounds; of the process' own time, whatever else runs.
DELAY, ROUNDS = 0.2, 6 * 10**6


@pytest.mark.parametrize("caught", (False, True))
@pytest.mark.parametrize("kind", (TimeoutError, KeyboardInterrupt))
def test_what_a_handler_raises_is_raised_once(kind, caught):
    def alarm(*_):
        raise kind

    def waits(a):
        b = a + 1
        try:
            for _ in range(ROUNDS):
                pass
        except BaseException:
            if not caught:
                raise
            return b * 100
        return b

    compiled = oxytorch.compile(waits)
    before = signal.signal(signal.SIGVTALRM, alarm)
    try:
        oxytorch.compile(lambda a: a + 2)(x())
        signal.setitimer(signal.ITIMER_VIRTUAL, DELAY)
        if caught:
            torch.testing.assert_close(compiled(x()), (x() + 1) * 100)
        else:
            with pytest.raises(kind):
                compiled(x())
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    for _ in range(3):
        torch.testing.assert_close(compiled(x()), x() + 1)


@pytest.mark.parametrize("kind", (TimeoutError, KeyboardInterrupt))
def test_what_a_handler_raises_while_a_graph_is_read(kind, monkeypatch):
    """It comes when what the program holds is computed: no bug, and no other signal than the one that came."""
    rung, interrupts, kept = [], [], []
    plain = torch.fx.Node.all_input_nodes

    def alarm(*_):
        raise kind

    def inputs(node):
        if not rung:
            rung.append(node)
            signal.raise_signal(signal.SIGALRM)
        return plain.fget(node)

    def keeps(a):
        kept.append(a + 1)
        return kept[-1] * 2

    compiled = oxytorch.compile(keeps)
    before = [signal.signal(signal.SIGALRM, alarm), signal.signal(signal.SIGINT, lambda *_: interrupts.append(1))]
    try:
        with monkeypatch.context() as patched:
            patched.setattr(torch.fx.Node, "all_input_nodes", property(inputs))
            with pytest.raises(kind):
                compiled(x())
    finally:
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGINT, before[1])
    assert rung and not interrupts
    torch.testing.assert_close(kept, [x() + 1])
    for _ in range(3):
        torch.testing.assert_close(compiled(x()), (x() + 1) * 2)


def test_what_a_handler_raises_while_a_call_is_traced(monkeypatch):
    """It is raised, and later calls are one graph: what was tried has not failed."""

    class Stop(Exception):
        pass

    def alarm(*_):
        raise Stop

    rung, plain = [], torch.fx.Graph.create_node

    def creates(*args, **kwargs):
        if len(rung) < 3:
            rung.append(args)
            if len(rung) == 3:
                signal.raise_signal(signal.SIGALRM)
        return plain(*args, **kwargs)

    def chain(a):
        for _ in range(4):
            a = torch.sin(a) + 1
        return a

    compiled = oxytorch.compile(chain)
    before = signal.signal(signal.SIGALRM, alarm)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(torch.fx.Graph, "create_node", creates)
            with pytest.raises(Stop):
                compiled(x())
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(rung) == 3
    for _ in range(3):
        torch.testing.assert_close(compiled(x()), chain(x()))
    assert compiled.stats()["breaks"] == []


FACTOR = 1.0


def test_what_a_handler_changes_is_in_no_trace():
    global FACTOR

    def alarm(*_):
        global FACTOR
        FACTOR = 5.0

    def waits(a):
        b = a * FACTOR
        for _ in range(ROUNDS):
            pass
        return b + FACTOR

    compiled = oxytorch.compile(waits)
    before = signal.signal(signal.SIGVTALRM, alarm)
    try:
        oxytorch.compile(lambda a: a + 2)(x())
        signal.setitimer(signal.ITIMER_VIRTUAL, DELAY)
        torch.testing.assert_close(compiled(x()), x() + 5)
        for FACTOR in (5.0, 1.0, 2.0):
            torch.testing.assert_close(compiled(x()), x() * FACTOR + FACTOR)
    finally:
        FACTOR = 1.0
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize("method", ("__repr__", "__hash__", "__str__"))
def test_methods_that_show_a_tensor(method):
    tensor = x()
    function = lambda a: getattr(a, method)()
    compiled = oxytorch.compile(function)
    for _ in range(2):
        assert compiled(tensor) == function(tensor)


def test_other_threads_run_while_the_machine_does():
    """A loop in Python lets other threads have their turn, recorded or not."""
    done = threading.Event()

    def waits(a):
        rounds = 0
        while not done.is_set() and rounds < 10**7:
            rounds += 1
        return a + (rounds < 10**7)

    other = threading.Timer(0.05, done.set)
    other.start()
    try:
        torch.testing.assert_close(oxytorch.compile(waits)(x()), x() + 1)
    finally:
        other.join()
