"""A GPT-2 built from its configuration: eager, oxytorch and torch.compile, each in a process of its own with empty caches, timed in turns.

    make demo
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "benches"))

import turns
import zoo

LABELS = {"eager": "eager", "oxytorch": "oxytorch", "inductor": "torch.compile"}


def main():
    sizes = zoo.CPU_SIZES["gpt2"]
    print(f"GPT-2, {sizes['layers']} layers of {sizes['hidden']}, batch {sizes['batch']}, {sizes['seq']} tokens, float32, inference")
    print("(torch.compile needs up to a minute for its first call)\n")
    print(f"{'':14} {'compile':>10} {'first call':>11} {'steady state':>13} {'speedup':>8} {'largest error':>14}")
    eager_ms = None
    rows = turns.side_by_side("gpt2", [(run, "default") for run in LABELS])
    for label, row in zip(LABELS.values(), rows):
        if "failed" in row:
            print(f"{label:14} {row['failed']}")
            continue
        eager_ms = eager_ms or row["ms"]
        compile_time = "-" if row["run"] == "eager" else f"{row['compile_s']:.2f} s"
        error = "-" if row["run"] == "eager" else f"{row['error']:.1e}"
        speedup = f"{eager_ms / row['ms']:.2f}x"
        print(f"{label:14} {compile_time:>10} {row['first_s']:>9.2f} s {row['ms']:>10.2f} ms {speedup:>8} {error:>14}", flush=True)
    print("\ncompile: graph to callable. first call: with the capture of the Python code. error: largest, relative to the largest value.")


if __name__ == "__main__":
    main()
