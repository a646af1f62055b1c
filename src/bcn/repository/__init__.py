"""The backup format: repository, points in time, entries, layers, leases.

It knows keys and digests, not Iceberg.
`docs/format.md` describes every file that this package writes.
"""
