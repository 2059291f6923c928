"""Files that a run keeps beside its journal: what they are, and how pictures are encoded."""
