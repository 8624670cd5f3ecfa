"""Eager, torch.compile and oxytorch in one run: seven workloads, each measurement in a fresh process with empty caches, timed in turns.

    make bench                                    # all of it
    make bench BENCH="--models gpt2,vit --modes default --iters 10"
    make bench BENCH="--modes default,freezing"   # and with frozen weights, for both compilers
    make bench BENCH="--train"                    # training steps: forward, loss, backward, AdamW
    make bench BENCH=--optimizer                  # one step of AdamW over 200 parameters
    make bench BENCH=--overhead                   # what a call costs besides the work, by the depth of the model
    make bench BENCH=--guards                     # what it costs to look at 1,000 symbolic sizes
    make bench BENCH=--again                      # the first call of a process that comes after another
    make bench BENCH=--general                    # code for any size beside code for one size

Prints a table and writes bench.json and bench.svg into `--out`: results/ next to this file, unless told otherwise. The chart in the
README is that of `make bench BENCH="--out docs"`.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import platform

import again
import general
import guards
import optimizer
import overhead
import turns
import zoo

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
COLUMNS = f"{'model':10} {'run':10} {'mode':16} {'compile s':>9} {'first s':>8} {'ms':>9} {'x eager':>8} {'call MB':>8} {'peak MB':>8} {'error':>8}"


def main() -> None:
    given = arguments()
    if given.overhead:
        return overhead.main()
    if given.guards:
        return guards.main()
    if given.again:
        return again.main(given.models.split(","))
    if given.general:
        return general.main(given.models.split(","), given.iters, threads=given.threads)
    if given.optimizer:
        return optimizer.main()
    rows = []
    print(COLUMNS)
    for name in given.models.split(","):
        compared = turns.side_by_side(name, plan(given), given.dtype, given.iters, given.train)
        eager = next((row for row in compared if row["run"] == "eager"), None)
        for row in compared:
            print(line(row, eager), flush=True)
        rows += compared
    given.out.mkdir(exist_ok=True, parents=True)
    document = dict(machine=machine(), iters=given.iters, rows=rows)
    (given.out / "bench.json").write_text(json.dumps(document, indent=1) + "\n")
    chart(rows, given.out / "bench.svg")
    print(f"\nwrote {given.out / 'bench.json'} and {given.out / 'bench.svg'}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(zoo.NAMES))
    parser.add_argument("--runs", default="eager,inductor,oxyfx,oxytorch")
    parser.add_argument("--modes", default="default")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--iters", type=int, default=20)
    parser.add_argument("--optimizer", action="store_true", help="measure one step of an optimizer instead")
    parser.add_argument("--overhead", action="store_true", help="measure small calls instead")
    parser.add_argument("--guards", action="store_true", help="measure checks of sizes instead")
    parser.add_argument("--again", action="store_true", help="measure the first call of a second process instead")
    parser.add_argument("--general", action="store_true", help="measure code for any size instead")
    parser.add_argument("--threads", type=int, default=0, help="of torch's, with --general; 0 for its default")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    return parser.parse_args()


def plan(given: argparse.Namespace):
    for run in given.runs.split(","):
        for mode in ["default"] if run == "eager" else given.modes.split(","):
            yield run, mode


def line(row: dict, eager: dict | None) -> str:
    head = f"{row['model']:10} {row['run']:10} {row['mode']:16}"
    if "failed" in row:
        return f"{head} failed: {row['failed']}"
    against = f"{eager['ms'] / row['ms']:.2f}" if eager and "ms" in eager else ""
    error = f"{row['error']:.1e}" if "error" in row else ""
    times = f"{row['compile_s']:9.3f} {row['first_s']:8.2f} {row['ms']:9.2f} {against:>8}"
    return f"{head} {times} {row['call_mb']:8.1f} {row['peak_mb']:8.0f} {error:>8}"


def machine() -> dict:
    import torch

    return dict(cpu=cpu_name(), threads=torch.get_num_threads(), torch=torch.__version__, python=platform.python_version())


def cpu_name() -> str:
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for entry in cpuinfo.read_text().splitlines():
            if entry.startswith("model name"):
                return entry.split(":", 1)[1].strip()
    return platform.processor()


def chart(rows: list[dict], path: pathlib.Path) -> None:
    """Two panels: speed against eager (higher is better), and the first call in seconds (lower is better). Of the first mode that was measured."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    mode = next((r["mode"] for r in rows if r["run"] != "eager"), "default")
    done = [r for r in rows if "ms" in r and (r["run"] == "eager" or r["mode"] == mode)]
    models = [m for m in zoo.NAMES if any(r["model"] == m for r in done)]
    runs = [("inductor", "torch.compile", "#b8b8b8"), ("oxytorch", "oxytorch", "#c8501e")]
    find = lambda model, run: next((r for r in done if (r["model"], r["run"]) == (model, run)), None)
    figure, panels = plt.subplots(1, 2, figsize=(11, 3.6))
    for place, (run, label, colour) in enumerate(runs):
        offsets = [n + (place - 0.5) * 0.38 for n in range(len(models))]
        pairs = [(find(m, "eager"), find(m, run)) for m in models]
        speed = [e["ms"] / r["ms"] if e and r else 0 for e, r in pairs]
        first = [r["first_s"] if r else 0 for _, r in pairs]
        panels[0].bar(offsets, speed, 0.36, label=label, color=colour)
        panels[1].bar(offsets, first, 0.36, label=label, color=colour)
    panels[0].axhline(1, color="black", linewidth=0.8)
    panels[0].set_title("steady state: times eager's speed")
    panels[1].set_title("first call in seconds (compile included)")
    if any(r["run"] != "eager" for r in done):
        panels[1].set_yscale("log")
    for panel in panels:
        panel.set_xticks(range(len(models)), models, rotation=20)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
