"""The model families, one short module each: grammars and the names under which vLLM knows them."""
