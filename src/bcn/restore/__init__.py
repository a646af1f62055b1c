"""Restore: copy content, rewrite deletes, manifests, lists and metadata, verify, then register.

Sizes flow upward, so no recorded length is ever stale; nothing is registered before all that it
names was checked.
"""
