"""Figures in groups of three, as the pages write them in every language; Django leaves them out for Chinese."""

THOUSAND_SEPARATOR = ","
NUMBER_GROUPING = 3
