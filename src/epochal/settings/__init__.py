"""Settings: the one place that reads environment variables and ``epochal.toml``.

An argument wins over the environment, the environment over the project's file, that over the
user's file, and that over the default. ``declared.py`` lists every setting. Besides them:

    EPOCHAL_CONFIG       the project's file, in place of the nearest; ``off`` reads no file at all
    EPOCHAL_LAUNCH_FILE  where a run says that it has begun, to whoever started the program
"""

from epochal.settings.declared import (
    ALERT_LEVELS,
    DECLARED,
    OPEN_TABLES,
    RESUME_MODES,
    Located,
    Setting,
    Settings,
)
from epochal.settings.environment import (
    cache_folder,
    child_environment,
    export_verbosity,
    file_environment,
    is_ci,
    no_colours,
    settings_environment,
)
from epochal.settings.launch import (
    Announcement,
    Launch,
    ParentRun,
    announce_launched,
    announce_run,
    launch_variable,
    read_announcements,
    read_launch,
    read_parent_run,
    withdraw_run,
)
from epochal.settings.read import (
    file_paths,
    mistake,
    nearest,
    read_setting,
    read_settings,
    read_table,
    read_variable,
)

__all__ = [
    "ALERT_LEVELS",
    "DECLARED",
    "OPEN_TABLES",
    "RESUME_MODES",
    "Announcement",
    "Launch",
    "Located",
    "ParentRun",
    "Setting",
    "Settings",
    "announce_launched",
    "announce_run",
    "cache_folder",
    "child_environment",
    "export_verbosity",
    "file_environment",
    "file_paths",
    "is_ci",
    "launch_variable",
    "mistake",
    "nearest",
    "no_colours",
    "read_announcements",
    "read_launch",
    "read_parent_run",
    "read_setting",
    "read_settings",
    "read_table",
    "read_variable",
    "settings_environment",
    "withdraw_run",
]
