"""Runs cases one after the other and writes a line of JSON for each: the process that may crash."""

import functools
import json
import os
import sys
import traceback

from .runner import compare, complaints, load


def capture_named(name):
    """`identity` compares CPython with itself."""
    if name == "identity":
        return lambda function: function
    from oxytorch import _oxytorch

    return functools.partial(_oxytorch.capture, options={"fallback_random": True})


def report(case, capture):
    try:
        lines, quality = compare(case, capture)
    except BaseException:
        return {"status": "error", "lines": traceback.format_exc().splitlines()[-12:], "complaints": []}
    return {"status": "different" if lines else "same", "lines": lines[:8], "complaints": complaints(case, quality)}


def main(capture_name, *names):
    results = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a case prints past sys.stdout is not a result
    known, capture = load(), capture_named(capture_name)
    for name in names:
        results.write(json.dumps({"begin": name}) + "\n")
        results.write(json.dumps({"case": name, **report(known[name], capture)}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
