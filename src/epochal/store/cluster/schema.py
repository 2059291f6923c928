"""The tables of a cluster's catalog, all in the schema ``epochal`` of a PostgreSQL database.

``runs.changed`` and ``runs.id`` order what a hub has not seen yet: every transaction that changes a
row takes the next number of ``counter`` at its end, so numbers become visible in their order.
``parts.records`` is how many lines of a part are acknowledged. Of these, the first ``sealed`` are
in an object of the bucket; ``lines`` has the others, in blocks as they came, compressed by zstd.
Nothing makes these blocks unique but the row in ``parts``, which is locked while they are added.
"""

from __future__ import annotations

VERSION = 1

TABLES = """
create schema if not exists epochal;
create table if not exists epochal.version (
    version int not null, created timestamptz not null default now()
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
    stored_bytes bigint not null default 0,
    created timestamptz not null default now(),
    received timestamptz not null default now(),
    removed timestamptz,
    published bigint not null default 0,
    changed bigint not null,
    unique (project, slug)
);
create index if not exists runs_changed on epochal.runs (changed);
create index if not exists runs_launch on epochal.runs (launch_id) where launch_id is not null;
create table if not exists epochal.parts (
    run text not null references epochal.runs on delete cascade,
    stem text not null,
    records bigint not null default 0,
    last_crc bigint not null default 0,
    received timestamptz not null default now(),
    sealed bigint not null default 0,
    object text,
    object_bytes bigint,
    sha256 text,
    lease_owner text,
    lease_until timestamptz,
    primary key (run, stem)
);
create index if not exists parts_unsealed on epochal.parts (received) where records > sealed;
create table if not exists epochal.lines (
    received timestamptz not null default now(),
    run text not null,
    stem text not null,
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
alter table epochal.lines alter column data set storage external;
insert into epochal.counter select 0 where not exists (select from epochal.counter);
insert into epochal.version select %(version)s where not exists (select from epochal.version);
"""

# Of today, and of the days that begin before the next look.
PARTITIONS = """
select format(
    'create table if not exists epochal.lines_%s partition of epochal.lines'
    ' for values from (%L) to (%L)',
    to_char(day, 'YYYYMMDD'), day, day + interval '1 day')
from generate_series(
    date_trunc('day', now()), date_trunc('day', now()) + interval '2 days', interval '1 day'
) as day
"""
