"""The rules, one file each; ``epochal.health.registry`` lists them."""
