"""Tokens-only engines: a client of theirs, and a scripted one for tests and demonstrations.

client.py speaks to any server of `/inference/v1/generate`, and events.py reads what it streams. The rest is
the scripted engine: request.py checks what it is asked, script.py says which tokens it answers,
generation.py runs them, faults.py lets them fail on demand, kv.py plays the hand-over from prefill to decode,
app.py answers over HTTP.
"""
