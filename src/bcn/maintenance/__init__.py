"""Keeping repositories sound and small: verify, repair, prune.

A *finding* is something that a check noticed; a *chain* is the layers of one entry, in order. A
*version* is one entry of an object with the PITs that name it; a *loss* is what is damaged and
cannot be made again; an *orphan* is a stored file that no PIT needs.
"""
