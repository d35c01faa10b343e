"""Compares what HolisticTraceAnalysis finds in profiles of steps with what fabricsim says of them.

    check.py FOLDER

FOLDER has a folder for each step, with its summary.json and, in kineto/, a profile of each rank.
Exits with 1 if a time differs by more than 1 %.
"""

import json
import os
import sys
from pathlib import Path

# Else times are rounded to whole microseconds, which hides short kernels.
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"

from hta.trace_analysis import TraceAnalysis  # noqa: E402
from hta.utils.utils import get_kernel_type, merge_kernel_intervals  # noqa: E402

ALLOWED = 0.01


class Check:
    def __init__(self):
        self.bad = 0

    def near(self, what, found, expected, whole):
        """Whether two times are within 1 % of `whole`."""
        good = abs(found - expected) <= ALLOWED * whole
        self.bad += not good
        mark = "" if good else "   <- differs"
        print(f"{what}: {found:.3f}, fabricsim {expected:.3f}{mark}")


def communication(analysis, rank):
    """How long any communication was under way on a rank, in microseconds."""
    names = analysis.t.symbol_table.get_sym_table()
    trace = analysis.t.traces[rank]
    kernels = trace[trace["stream"].ne(-1)].copy()
    kinds = kernels["name"].apply(lambda name: get_kernel_type(names[name]))
    merged = merge_kernel_intervals(kernels[kinds.eq("COMMUNICATION")].copy())
    return (merged["end"] - merged["ts"]).sum()


def step(folder, check):
    summary = json.loads((folder / "summary.json").read_text())
    result = summary["variants"][0]["ran"]
    whole = result["step_s"] * 1e6
    booked = {}
    for rank in result["ranks"]:
        parts = booked.setdefault(rank["rank"], {})
        for part in rank["time"]:
            kind = part["kind"]
            parts[kind] = parts.get(kind, 0.0) + part["seconds"] * 1e6
    analysis = TraceAnalysis(trace_dir=str(folder / "kineto"))
    breakdown = analysis.get_temporal_breakdown(visualize=False)
    overlap = analysis.get_comm_comp_overlap(visualize=False).set_index("rank")
    for row in breakdown.to_dict("records"):
        rank = row["rank"]
        parts = booked[rank]
        name = f"{folder.name}, rank {rank}"
        exposed = parts.get("exposed", 0.0) + parts.get("waiting", 0.0)
        # Kernels that collectives slow down compute all the same.
        compute = parts["compute"] + parts.get("slowed", 0.0)
        check.near(f"{name}, compute (us)", row["compute_time(us)"], compute, compute)
        check.near(f"{name}, exposed and waiting (us)", row["non_compute_time(us)"], exposed, exposed)
        # Before the first kernel and after the last one, too, a GPU has nothing to do.
        outside = whole - row["kernel_time(us)"]
        idle = whole - compute - exposed
        check.near(f"{name}, idle (us)", row["idle_time(us)"] + outside, idle, whole)
        all_of_it = communication(analysis, rank)
        hidden = overlap.loc[rank, "comp_comm_overlap_pctg"] / 100 * all_of_it
        check.near(f"{name}, hidden communication (us)", hidden, all_of_it - exposed, all_of_it)
    if folder.name == "ddp":
        # Nobody waits: what is hidden is so of all communication.
        for rank in overlap.index:
            found = overlap.loc[rank, "comp_comm_overlap_pctg"] / 100
            check.near(f"{folder.name}, rank {rank}, overlap", found, result["overlap"], 1.0)


def main():
    check = Check()
    steps = sorted(path for path in Path(sys.argv[1]).iterdir() if path.is_dir())
    if not steps:
        sys.exit(f"{sys.argv[1]} holds no steps")
    for folder in steps:
        step(folder, check)
    if check.bad:
        sys.exit(f"{check.bad} times differ by more than {ALLOWED:.0%}")


if __name__ == "__main__":
    main()
