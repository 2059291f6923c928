"""The command ``epochal``: one file per command, loaded when it is used."""
