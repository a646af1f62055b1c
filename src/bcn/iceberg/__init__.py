"""The table format as pure functions: bytes and documents in, bytes and documents out; no I/O.

A *location* is a string as the table spells it, never parsed or normalised. A *root* is a prefix of
locations that ends before a `/`; *moves* say which root becomes which.
"""
