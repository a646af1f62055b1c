"""Bytes under keys, with no idea what they mean.

A *key* is relative to a storage's own root and is never normalised. A *location* is absolute and
names its storage by its scheme. A storage is opened from a `StorageSpec`, a plain value that
executors can be sent.
"""
