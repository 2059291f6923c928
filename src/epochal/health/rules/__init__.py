"""The rules, one file each; ``epochal.health.catalogue`` lists them."""
