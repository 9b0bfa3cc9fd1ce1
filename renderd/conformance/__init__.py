"""Replays golden cases against any render or derender server, by HTTP alone.

Rooms of this package, from the data inwards:

* `cases`: what golden/ holds, read into memory; `divergences`, `defects`: where answers may differ, and why.
* `paths`, `compare`, `rules`: JSON values compared key by key; `assemble`: a stream put together again, its
  order checked; `chunking`: a finished answer cut into the events that an engine would have streamed.
* `client`: HTTP; `checks`, `derendering`: what is asked and compared for one case; `runner`: all cases of a
  server; `report`: the table.
* `main`: `renderd conformance`. `bench`: `renderd bench`, a folder; `parsing`: `renderd bench parsers`.

Nothing here knows how the server under test works: it imports nothing of renderd's but wire.
"""
