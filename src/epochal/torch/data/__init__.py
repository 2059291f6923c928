"""What a data loader returns: sample identities, labels, padding and wrong values."""
