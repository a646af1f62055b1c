"""The tests that seed 003 names, one file a group, on real Spark and real catalogs."""
