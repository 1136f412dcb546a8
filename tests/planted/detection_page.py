"""The page docs/detection.md, from the figures that detection.py took."""

#: Why a level does not see a fault: its first words say of which kind the reason is.
NO_ORDER = "no lock is taken out of order"
TWO_THREADS = "it takes two threads"
CANNOT = {
    "order checker": {
        **dict.fromkeys(
            (
                "rules_under_the_lock",
                "drop_tries_before_it_appends",
                "holder_looks_before_it_counts",
                "drops_move_before_the_forwarding",
                "claim_in_two_steps",
                "rule_looked_at_twice",
                "count_outside_the_lock",
                "registered_in_a_merged_graph",
                "arrivals_left_in_a_merge",
                "freed_before_all_arrivals_are_counted",
                "flag_raised_after_the_append",
                "sweep_answers_for_later_claims",
                "sweep_passes_what_was_merged_away",
                "sweep_looks_at_the_mark_last",
                "shares_the_sweep_it_waited_for",
                "backlog_left_in_a_merge",
                "claim_does_not_look_at_arrivals_again",
                "locks_kept_in_a_forked_child",
                "holder_does_not_look_again",
                "drops_moved_after_a_look",
                "deferred_taken_after_a_look",
                "directory_entry_left_behind",
                "inputs_let_go_before_recording",
                "hooks_made_twice",
                "update_without_a_compare",
                "drop_trusts_any_claim",
            ),
            NO_ORDER,
        )
    },
    "handlers": dict.fromkeys(
        (
            "directory_under_graph",
            "locks_in_order_of_arrival",
            "holder_looks_before_it_counts",
            "drops_move_before_the_forwarding",
            "claim_in_two_steps",
            "rule_looked_at_twice",
            "holder_does_not_look_again",
            "drops_moved_after_a_look",
            "fork_takes_the_locks_inside_out",
        ),
        TWO_THREADS,
    ),
    "state machine": {
        **dict.fromkeys(
            ("locks_kept_in_a_forked_child", "fork_takes_the_locks_inside_out"),
            "its programs do not fork",
        ),
        "deferred_taken_after_a_look": "its programs have no signal handlers",
        "hooks_made_twice": "each of its hooks is on a tensor of one thread",
        "inputs_let_go_before_recording": "its programs hold every operand",
    },
}

HEAD = """# Which level catches which fault

Written by `python tests/planted/detection.py --runs 100` from `tests/planted/detection.json`.
`pytest tests/planted -s` runs a sample of it live and shows what was tried and what was seen.

Each fault is planted in the running code and each level then looks, once for each seed, knowing
nothing of the fault: all faults get the same programs, scenarios and budget.
A cell says in how many of the runs the level saw something wrong, then the median over those runs
of the work until then (operations, or schedules of the explorer) and of the seconds.
A level that saw nothing, or little, in ten runs was not asked further.
Seconds are of processor time, for the stress suite of the clock.

* **order checker**: an ordinary program of one thread beside the checker of lock orders.
* **handlers**: one thread, and a signal handler wherever CPython looks for signals.
* **explorer, exhaustive**: every schedule of a fixed set of scenarios with at most two \
preemptions, up to a number; it has no seed, so one run says it all.
* **explorer, random**: the same scenarios by PCT and, less often, random walk.
* **state machine**: programs and schedules drawn by seed on the explorer, beside a naive graph \
that knows no threads.
* **stress**: `python -m stress --profile all` with the fault planted in its worker.

"""


def rendered(figures, units, faults):
    """The page: budgets, the faults by level, the shipped code, what cannot be seen."""
    parts = [HEAD, "## Faults\n\n", _faults(figures, units, faults), "\n## The shipped code\n\n"]
    parts += ["The same runs with nothing planted.\n\n", _shipped(figures, units)]
    parts += ["\n## What the faults are\n\n", "| fault | what it is |\n|---|---|\n"]
    parts += [f"| `{name}` | {text} |\n" for name, text in faults.items()]
    return "".join(parts) + _cannot(faults)


def _faults(figures, units, faults):
    lines = [f"| fault | {' | '.join(units)} |\n", f"|---|{'---|' * len(units)}\n"]
    for name in faults:
        cells = [_cell(figures.get(level, {}).get(name), level, name) for level in units]
        lines.append(f"| `{name}` | {' | '.join(cells)} |\n")
    return "".join(lines)


def _cell(entry, level, name):
    reason = CANNOT.get(level, {}).get(name)
    if entry is None or (reason is not None and not entry["caught"]):
        return "cannot" if reason is not None else "not run"
    text = f"{entry['caught']}/{entry['runs']}"
    if not entry["caught"]:
        return text
    return f"{text}, {entry['work']:,}, {entry['seconds']:.2f} s ({entry['as'][0]})"


def _shipped(figures, units):
    lines = ["| level | budget of a run | runs | findings | seconds of a run |\n"]
    lines.append("|---|---|---:|---:|---:|\n")
    for level, unit in units.items():
        entry = figures.get(level, {}).get("shipped")
        if entry is not None:
            cells = [level, unit, entry["runs"], entry["caught"], entry["seconds"]]
            lines.append(f"| {' | '.join(map(str, cells))} |\n")
    return "".join(lines)


def _cannot(faults):
    lines = ["\n## Why a level cannot see a fault\n\n"]
    for level, reasons in CANNOT.items():
        for reason in dict.fromkeys(reasons.values()):
            names = [f"`{name}`" for name in faults if reasons.get(name) == reason]
            if names:
                lines.append(f"* **{level}**: {reason}: {', '.join(names)}.\n")
    return "".join(lines)
