"""The version of bcn, as packages, PITs and `bcn --version` say it."""

VERSION = "0.1.0"
