"""Kinds about the run itself: start and end, definitions of metrics, messages and findings."""

from __future__ import annotations

from epochal.records.kind import ROLES, Field, counts, kind, texts

RUN = kind(
    "run",
    "none",
    "the first record of every part: the identity of its writer",
    Field("v", "count", meaning="format version"),
    *texts("id", "name", "project", "writer"),
    *counts("attempt", "part", "rank"),
    *texts("host", "boot_id", "pid_namespace"),
    Field("pid", "count"),
    Field("pid_start", meaning="when the process started, in the kernel's units"),
    Field("config", "object", meaning="in part 0 of `loop`"),
)
RESUME = kind(
    "resume",
    "none",
    "this attempt takes over from a step",
    Field("attempt", "count"),
    Field("step", "count", meaning="the first step it makes"),
)
FINISH = kind(
    "finish",
    "none",
    "the last record of a writer",
    Field("status", "text", choices=("finished", "failed", "interrupted", "terminated")),
    Field("reason", "text"),
    Field("last_step", "count"),
    Field("evaluated", "count", meaning="in `findings`: records that the rules evaluated"),
    Field("records", "count", meaning="in `findings`: records of steps and metrics there were"),
)
OPTION = kind(
    "option",
    "none",
    "one configuration entry added after the start",
    Field("name", "text"),
    Field("value", "any"),
)
SUMMARY = kind(
    "summary",
    "none",
    "what the program says the run came to; it wins over the last value that was logged",
    Field("name", "text"),
    Field("value", "any"),
    Field("deleted", "flag", meaning="the value that was set no longer counts"),
)
DEFINE = kind(
    "define",
    "none",
    "what a metric means",
    *texts("name", "unit"),
    Field("goal", "text", meaning="which way is better", choices=("min", "max")),
    Field("x", "text", meaning="the metric to draw it against"),
    Field("role", "text", choices=ROLES),
)
EVENT = kind(
    "event", "none", "something that happened, and facts under any names", Field("name", "text")
)
FINDING = kind(
    "finding",
    "none",
    "what a rule found, and how it stands now",
    Field("id", "text", meaning="the same as long as it is one finding"),
    Field("rule", "text"),
    Field("severity", "text", choices=("info", "warning", "error")),
    Field("sentence", "text"),
    Field("series", "text", meaning="the series it is about"),
    Field("steps", "list", meaning="first and last step"),
    Field("evidence", "object", meaning="the numbers behind it"),
    Field("advice", "text"),
    Field("state", "text", choices=("open", "closed")),
    Field("certainty", "text", choices=("fact", "measured", "inferred")),
    Field("under", "text", meaning="the id of the finding that it is a consequence of"),
    Field("experiment", "text", meaning="what would confirm or refute it"),
    Field("apart", "object", meaning="rule to what tells that cause and this one apart"),
)
MESSAGE = kind(
    "message",
    "none",
    "a line for people, or captured output",
    Field("level", "text", meaning="`stdout` and `stderr` are captured output"),
    Field("text", "text"),
    Field("duration_ms", "amount", "ms", "of a timed section"),
)

LIFECYCLE = (RUN, RESUME, FINISH, OPTION, SUMMARY, DEFINE, EVENT, FINDING, MESSAGE)
