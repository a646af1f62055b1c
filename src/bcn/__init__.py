"""Backup and restore for Apache Iceberg tables, databases and catalogs."""

__version__ = "0.1.0"
