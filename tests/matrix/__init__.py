"""From any stack to any other: what Spark wrote through one catalog is restored into each."""
