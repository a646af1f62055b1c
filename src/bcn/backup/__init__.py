"""Backup: capture pointers, compare with the parent PIT, walk, copy what is missing, publish.

A *work* is one table that changed; a *group* is the share of files that one task plans and seals.
"""
