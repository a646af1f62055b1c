"""Keeping repositories sound: verify.

A *finding* is something that a check noticed; a *chain* is the layers of one entry, in order.
"""
