"""Generators and coroutines."""

import types


def numbers(n):
    for i in range(n):
        sent = yield i
        if sent:
            return sent


def case_iterated():
    return list(numbers(3)), sum(x * x for x in numbers(4)), [x for x in numbers(2)]


def end_of(generator, *sent):
    """What comes out of a generator, and how it ends."""
    seen = []
    try:
        seen.append(next(generator))
        for value in sent:
            seen.append(generator.throw(value) if isinstance(value, Exception) else generator.send(value))
    except StopIteration as end:
        seen.append(("value", end.value))
    except Exception as error:
        seen.append((type(error).__name__, str(error)))
    return seen


def case_sent():
    return end_of(numbers(3), None, "stop"), end_of(numbers(1), None)


def catching(log):
    try:
        while True:
            try:
                log.append((yield len(log)))
            except ValueError as error:
                log.append(str(error))
                yield "caught"
    finally:
        log.append("closed")


def case_thrown():
    log = []
    seen = end_of(catching(log), 1, ValueError("v"), 2, TypeError("t"))
    return seen, log


def delegating(inner, log):
    try:
        result = yield from inner
        log.append(("result", result))
    except KeyError as error:
        log.append(("key", str(error)))
        result = "replaced"
    last = yield result
    return last


def returning_on_throw():
    while True:
        try:
            yield "waiting"
        except ValueError:
            return "thrown"


def case_delegated():
    log = []
    return (
        end_of(delegating(numbers(3), log), None, "early", "last"),
        end_of(delegating([1, 2], log), None, None, "last"),
        end_of(delegating(returning_on_throw(), log), None, ValueError("v"), "last"),
        end_of(delegating(returning_on_throw(), log), KeyError("k"), "last"),
        end_of(delegating(returning_on_throw(), log), OSError("o")),
        end_of(delegating([1, 2], log), KeyError("no throw method"), "last"),
        log,
    )


def case_closed():
    log = []
    inner = catching(log)
    outer = delegating(inner, log)
    seen = [next(outer), outer.send("a")]
    outer.close()
    outer.close()
    return seen, log, list(outer)


def case_one_of_two():
    def choose(c, xs, y):
        return y if c else (yield from xs)

    return end_of(choose(True, [1], 2)), end_of(choose(False, [1], 2), None)


def case_stop_iteration_inside():
    def wrong():
        yield 1
        raise StopIteration("inside")

    return end_of(wrong(), None)


def case_ignored_exit():
    def stubborn():
        while True:
            try:
                yield
            except GeneratorExit:
                pass

    generator = stubborn()
    next(generator)
    generator.close()


@types.coroutine
def suspend(value):
    return (yield value)


async def awaiting(x):
    got = await suspend(x)
    return await returning(got)


async def returning(x):
    return x


def drive(coroutine):
    """Runs a coroutine; sends back what it asks for, in words."""
    asked = []
    value = None
    while True:
        try:
            request = coroutine.send(value)
        except StopIteration as end:
            return asked, end.value
        asked.append(request)
        value = f"got {request}"


def case_awaited():
    return drive(awaiting("a"))


class Resource:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    async def __aenter__(self):
        self.log.append(await suspend("enter"))
        return self

    async def __aexit__(self, kind, error, traceback):
        self.log.append((await suspend("exit"), str(error)))
        return self.swallow


class Countdown:
    def __init__(self, n):
        self.n = n

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.n:
            raise StopAsyncIteration
        self.n -= 1
        return await suspend(self.n)


async def managing(log, fail):
    async with Resource(log, swallow=fail) as resource:
        async for item in Countdown(2):
            resource.log.append(item)
        else:
            log.append("else")
        if fail:
            raise ValueError("inside")
        waited = [await suspend(i) for i in range(2)]
        return [i async for i in Countdown(2)], waited, {i: 1 async for i in Countdown(1)}
    return "swallowed"


def case_asynchronous():
    log = []
    return drive(managing(log, False)), drive(managing(log, True)), log


async def doubled(source):
    async for item in source:
        got = yield item * 2
        if got:
            await suspend(got)


async def consuming():
    return [x async for x in doubled(Countdown(3))]


async def stepping():
    generator = doubled(Countdown(3))
    first = await generator.__anext__()
    second = await generator.asend("sent")
    return first, second


def case_asynchronous_generators():
    return drive(consuming()), drive(stepping())


def case_not_awaitable():
    async def wrong():
        async for _ in Countdown(1):
            raise LookupError("inside the loop")

    return drive(wrong())
