"""The write side's front: turns calls into records, and answers no questions."""
