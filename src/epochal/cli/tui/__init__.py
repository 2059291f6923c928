"""``epochal watch``: runs in a terminal, from what stores return.

text     styles, and the first line about a run
vitals   vital signs and findings as lines of text
chart    curves of a metric, drawn by plotext
state    the runs of a store, the chosen run, the compared runs
app      the Textual app; nothing else imports Textual
once     a run printed once, for pipes and logs
"""
