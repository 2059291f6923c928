"""Opens the store of folders, of a bucket or its copy, or of a server by its address."""

from __future__ import annotations

from pathlib import Path

from epochal.errors import UsageError
from epochal.health.rule_settings import RuleSettings
from epochal.settings import cache_folder
from epochal.store.bucket import is_bucket_address
from epochal.store.lookup import is_address
from epochal.store.published import is_bucket_folder
from epochal.store.store import Store


def open_runs(
    path: str | Path,
    *,
    token: str | None = None,
    follow_links: bool = False,
    rules: RuleSettings | None = None,
) -> Store:
    """The runs at a path or an address; raises ``UsageError`` for a folder that is not there.

    Args:
        path: A folder, a file of another tracker, or an address.
        token: The token of a hub or server, by default that of the settings.
        follow_links: Follow links that lead out of a folder.
        rules: For runs that were recorded without settings of rules.
    """
    if is_address(path) and not is_bucket(path):
        from epochal.store.remote.catalog import open_remote

        return open_remote(str(path), token=token, rules=rules)
    if not is_bucket(path):
        from epochal.store.local.catalog import check_place

        check_place(path)
    return store_over(path, cache=cache_folder(), follow_links=follow_links, rules=rules)


def store_over(
    *paths: str | Path, cache: Path, follow_links: bool = False, rules: RuleSettings | None = None
) -> Store:
    """The store over some folders, or over one bucket."""
    if any(map(is_bucket, paths)):
        from epochal.store.bucket_runs import bucket_store

        if len(paths) > 1:
            raise UsageError("a bucket is opened alone, without other buckets and folders.")
        return bucket_store(str(paths[0]), cache=cache, rules=rules)
    from epochal.store.local.catalog import folder_store

    return folder_store(*paths, cache=cache, follow_links=follow_links, rules=rules)


def is_bucket(path: str | Path) -> bool:
    """Whether a path or an address is a bucket, or a folder that is the copy of one."""
    return is_bucket_address(str(path)) or is_bucket_folder(path)
