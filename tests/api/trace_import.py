"""A model of the importer of Chrome traces in Perfetto's trace processor, which counts the same errors.

The importer takes events in the order of their times, those of a time in the order of the file.  A row is a stack of
slices; one that ends behind the slice around it is dropped.  Times are read as doubles of microseconds, and cut to
nanoseconds.  The names of the counts are Perfetto's.

Source: src/trace_processor/importers/json and common of Perfetto, versions up to 2026.
"""

import json
import re
from collections import Counter

# Half of a character beyond the first 65,536: its parser takes no pairs of these.
SURROGATE = re.compile(r"(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]")
PHASES = {"M", "X", "i", "s", "f"}


def nanoseconds(value):
    """A time as the importer reads it."""
    return value * 1000 if type(value) is int else int(value * 1000.0)


def refuse(word):
    """NaN and infinity are no numbers of JSON."""
    raise ValueError(word)


def errors_of(text):
    """The counts of errors, by name."""
    errors = Counter(json_parser_failure=len(SURROGATE.findall(text)))
    try:
        events = json.loads(text, parse_constant=refuse)
    except ValueError:
        return Counter(json_tokenizer_failure=1)
    threads = {(event["pid"], event["tid"]) for event in events if event["tid"]}
    numbers = Counter(tid for _, tid in threads)
    errors["shared_thread_number"] = sum(count > 1 for count in numbers.values())
    errors["thread_named_as_process"] = len({pid for pid, _ in threads} & numbers.keys())
    stacks, begun, ended = {}, set(), set()
    for event in sorted(events, key=lambda event: nanoseconds(event["ts"])):
        phase, ts = event["ph"], nanoseconds(event["ts"])
        errors["json_parser_failure"] += phase not in PHASES or type(event["name"]) is not str
        errors["negative_time"] += ts < 0
        stack = stacks.setdefault((event["pid"], event["tid"]), [])
        if phase in "Xi":
            dur = nanoseconds(event["dur"]) if phase == "X" else 0
            errors["negative_time"] += dur < 0
            errors["json_parser_failure"] += phase == "i" and event["s"] != "t"
            while stack and stack[-1] <= ts:
                stack.pop()
            if stack and ts + dur > stack[-1]:
                errors["slice_drop_overlapping_complete_event"] += 1
            else:
                stack.append(ts + dur)
        elif phase in "sf":
            key = event["cat"], event["name"], event["id"]
            errors["flow_no_enclosing_slice"] += all(end < ts for end in stack)
            errors["flow_duplicate_id"] += phase == "s" and key in begun
            errors["flow_end_without_start"] += phase == "f" and (key not in begun or key in ended)
            (begun if phase == "s" else ended).add(key)
    return +errors
