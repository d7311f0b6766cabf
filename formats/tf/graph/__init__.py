"""What object graphs say, and what can be done to them."""
