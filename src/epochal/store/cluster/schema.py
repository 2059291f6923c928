"""The tables of a cluster's catalog, all in the schema ``epochal`` of a PostgreSQL database.

``runs.changed`` and ``runs.id`` order what a hub has not seen yet: every transaction that changes a
row takes the next number of ``counter`` at its end, so numbers become visible in their order.
``parts.records`` is how many lines of a part are acknowledged. Of these, the first ``sealed`` are
in an object of the bucket; ``lines`` has the others, in blocks as they came, compressed by zstd.
Nothing makes these blocks unique but the row in ``parts``, which is locked while they are added.
Sealed lines stay in ``lines`` until their partition is dropped.

``parts.last_crc`` is of the last line and ``sealed_crc`` of the last sealed one; both are 0 where a
sender has sealed the part. ``is_finished``: the last line is the end of an attempt. ``unsealed`` is
when the oldest line that is not sealed came.

``runs.stored_bytes`` is the size of the run's objects and of its lines that are not sealed, before
their compression. ``usage`` has the sums of it; ``writer`` is the token that registered a run.

``runs.due`` is the number of the last change that the bucket has to show, and ``published`` of the
last one that it shows. Readers of the bucket believe ``indexes``, which are written last. Objects
in ``sweep`` are deleted after the recovery window, unless a part or a blob has them by then.
``version.written`` is at least the number in ``bucket.json``, unless the database was restored.
"""

from __future__ import annotations

VERSION = 1
# The statements that make each version of the one before it. ``TABLES`` are those of the newest.
STEPS: dict[int, str] = {}

TABLES = """
create schema if not exists epochal;
create table if not exists epochal.version (
    version int not null,
    created timestamptz not null default now(),
    id text not null default gen_random_uuid()::text,
    written bigint not null default 0
);
create table if not exists epochal.counter (
    value bigint not null
);
create table if not exists epochal.runs (
    id text primary key,
    project text not null,
    slug text not null,
    launch_id text,
    identified timestamptz not null default now(),
    identity bytea not null,
    labels bytea not null default '{}',
    summary bytea,
    writer text not null,
    stored_bytes bigint not null default 0,
    created timestamptz not null default now(),
    received timestamptz not null default now(),
    removed timestamptz,
    changed bigint not null,
    due bigint not null default 0,
    published bigint not null default 0,
    lease_owner text,
    lease_until timestamptz,
    unique (project, slug)
);
create index if not exists runs_changed on epochal.runs (changed);
create index if not exists runs_due on epochal.runs (due) where due > published;
create index if not exists runs_launch on epochal.runs (launch_id) where launch_id is not null;
create table if not exists epochal.parts (
    run text not null references epochal.runs on delete cascade,
    stem text collate "C" not null,
    records bigint not null default 0,
    last_crc bigint not null default 0,
    is_finished boolean not null default false,
    received timestamptz not null default now(),
    unsealed timestamptz,
    sealed bigint not null default 0,
    sealed_crc bigint not null default 0,
    object text,
    object_bytes bigint,
    sha256 text,
    lease_owner text,
    lease_until timestamptz,
    primary key (run, stem)
);
create index if not exists parts_unsealed on epochal.parts (received) where records > sealed;
create table if not exists epochal.usage (
    writer text not null,
    project text not null,
    stored_bytes bigint not null,
    primary key (writer, project)
);
create table if not exists epochal.lines (
    received timestamptz not null default now(),
    run text not null,
    stem text collate "C" not null,
    first bigint not null,
    num_lines int not null,
    num_bytes int not null,
    data bytea not null
) partition by range (received);
create index if not exists lines_part on epochal.lines (run, stem, first);
create table if not exists epochal.blobs (
    run text not null references epochal.runs on delete cascade,
    name text not null,
    object text not null,
    num_bytes bigint not null,
    sha256 text not null,
    primary key (run, name)
);
create table if not exists epochal.uploads (
    run text not null references epochal.runs on delete cascade,
    kind text not null,
    name text not null,
    sha256 text not null,
    num_bytes bigint not null,
    started timestamptz not null default now(),
    primary key (run, kind, name, sha256)
);
create unlogged table if not exists epochal.readings (
    run text not null, name text not null, data bytea not null, primary key (run, name)
);
create table if not exists epochal.metrics (
    run text primary key references epochal.runs on delete cascade, data bytea not null
);
create table if not exists epochal.documents (
    kind text not null, key text collate "C" not null, body bytea not null, primary key (kind, key)
);
create table if not exists epochal.sweep (
    object text primary key, since timestamptz not null default now()
);
create table if not exists epochal.indexes (
    project text primary key,
    number bigint not null default 0,
    num_runs bigint not null default 0,
    written timestamptz,
    lease_owner text,
    lease_until timestamptz
);
alter table epochal.lines alter column data set storage external;
insert into epochal.counter select 0 where not exists (select from epochal.counter);
insert into epochal.version select %(version)s where not exists (select from epochal.version);
"""

# Of today, and of the days that begin before the next look. Days are those of UTC: hubs may run in
# several time zones.
PARTITIONS = """
select format(
    'create table if not exists epochal.lines_%s partition of epochal.lines'
    ' for values from (%L) to (%L)',
    to_char(day, 'YYYYMMDD'), day at time zone 'UTC', (day + interval '1 day') at time zone 'UTC')
from generate_series(
    date_trunc('day', now() at time zone 'UTC'),
    date_trunc('day', now() at time zone 'UTC') + interval '2 days',
    interval '1 day'
) as day
"""
