"""What a real vLLM answered, and the tools that ask it. See golden/README.md."""
