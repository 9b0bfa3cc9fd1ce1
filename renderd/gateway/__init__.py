"""The whole route in one process: OpenAI's and Anthropic's endpoints over tokens-only engines.

engines.py watches engines and chooses among them, route.py brings one request through them. What answers
clients renders, sends the request along the route and derenders what comes back.
"""
