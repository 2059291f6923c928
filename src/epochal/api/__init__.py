"""What programs import from ``epochal`` beside runs: Monitor, TrainingRunLogger, open and load."""
