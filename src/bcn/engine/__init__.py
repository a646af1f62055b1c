"""Spark: runs many small tasks anywhere, so that running again is safe.

A *task* is a plain value for a module-level function; it opens its own storages, writes its rows as
Parquet *parts* and gives back one small result. A failed file is a result, not an exception.
"""
