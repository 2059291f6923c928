"""The syntax of filters, conditions, formulas and patterns; texts are parsed, never executed."""
