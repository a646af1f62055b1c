"""Settings: defaults, then a file, then the environment; flags come on top in the command line.

A *section* is a table of `bcn.toml`, such as `[lease]` or `[catalogs.prod]`. A *key* is a setting
in it. Each package owns the type of its own settings; here they are loaded, checked and composed.
"""
