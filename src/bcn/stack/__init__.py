"""Servers for trying things out and for the tests: local processes with their data in a folder.

A *server* is one process: it listens on a loopback port, keeps its files and its log in a folder
of its own, and is ended by its process id. What a server needs and the machine lacks is fetched
once, by name and version, into a folder of the Python environment.
"""
