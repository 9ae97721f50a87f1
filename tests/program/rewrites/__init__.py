"""Exact rewrites of every pass, one file a pass: REWRITES, and `holds`, its postcondition."""
