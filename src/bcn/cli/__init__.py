"""The command line: a command parses, calls `bcn.api`, prints the report it gets.

Results go to stdout, as text or as one JSON object; all else that is for people goes to stderr.
"""
