"""`python -m semantics`: compares capture with CPython, case by case, and lists what differs."""

import argparse
import collections
import sys

from .isolate import run
from .runner import load


def main():
    parser = argparse.ArgumentParser(prog="python -m semantics", description=__doc__)
    parser.add_argument("names", nargs="*", help="cases or subjects; all if none is named")
    parser.add_argument("--capture", default="oxytorch", choices=("oxytorch", "identity"))
    parser.add_argument("--quiet", action="store_true", help="only the counts")
    options = parser.parse_args()
    chosen = [name for name, case in load().items() if not options.names or {name, case.subject} & set(options.names)]
    counts = collections.Counter()
    for report in run(chosen, options.capture):
        kind = report["status"] if report["status"] != "same" or not report["complaints"] else "worse"
        counts[kind] += 1
        if not options.quiet and kind != "same":
            print(f"{kind}: {report['case']}", *report["lines"], *report["complaints"], sep="\n    ", flush=True)
    print(f"{len(chosen)} cases on {sys.version.split()[0]}:", ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items())))
    return 0 if set(counts) <= {"same"} else 1


if __name__ == "__main__":
    sys.exit(main())
