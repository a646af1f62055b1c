"""What changed, in words: between two PITs (`diff`), and of one object over all of them (`log`).

A *version* is what one PIT holds of an object: its entry, and its metadata document where the
question needs it. Reads documents and inventories only: no Spark.
"""
