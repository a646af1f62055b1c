"""What seed 002 tests: Hive Metastore and MinIO, by the command, with its variables alone."""
