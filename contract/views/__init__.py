"""A plan to look at: drawn in characters, as a figure, as a page, explained, and as values of others."""
