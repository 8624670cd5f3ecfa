"""Generators, coroutines and what only they have."""


def numbers(n):
    for i in range(n):
        sent = yield i
        if sent:
            return sent


def delegating(xs):
    result = yield from xs
    try:
        yield from numbers(result)
    finally:
        yield


def one_of_two(c, xs, y):
    return y if c else (yield from xs)


async def awaiting(x):
    return await x


async def managing(manager, items):
    async with manager as m:
        async for item in items:
            await m(item)
    return [item async for item in items], [await i for i in items]


async def asynchronous_generator(items):
    async for item in items:
        got = yield item
        await got
