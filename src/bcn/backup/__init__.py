"""Backup: capture pointers, compare with the parent PIT, walk what changed, copy what is missing, publish.

A *work* is one table that changed; a *group* is the share of all files that one task plans and seals.
"""
