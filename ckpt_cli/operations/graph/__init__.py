"""The object graph as data and as pictures."""
