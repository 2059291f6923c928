"""What leaves and enters as records: sinks, imports and media."""
