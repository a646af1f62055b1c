"""Mutation tests: each step that a promise needs is left out once, and some test must fail.

A *mutant* is the product with one step left out; it is *killed* if a test notices, else it
*survives*, and then the step could be lost without anybody's knowing.
"""
