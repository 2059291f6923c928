"""``epochal watch``: runs in a terminal, drawn from what stores answer.

styles severity lines glyphs           styled text in columns
scale chart curves charts spark        series as braille characters
vitals machine run_line run_text       what is known of a run, as lines of text
run_log app_state view                 what is read, and what the person has chosen
panels snapshot                        lines for each panel, or a run printed once
widgets screen app watch.tcss          the Textual app; nothing else imports Textual
"""
