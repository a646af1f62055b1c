"""Tables by name.

A *pointer* is what a catalog keeps of a table: its name and the location of its current metadata
file. A catalog is read and written through its own records (folders, SQL rows), never through a
model of tables, which would refuse odd tables and drop what it does not know. Neither kind here
needs pyiceberg for that.
"""
