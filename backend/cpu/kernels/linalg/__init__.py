"""Factorisations of many small matrices at once, one lane of a vector for each."""
