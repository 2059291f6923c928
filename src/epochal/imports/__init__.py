"""Other trackers' files, read as runs: each format is a member, ``foreign`` says what one is."""
