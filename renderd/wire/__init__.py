"""The bytes on the network: msgspec structs, one module per API, errors and the stream state.

Imports nothing of renderd.
"""
