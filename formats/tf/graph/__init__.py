"""Object graphs, and the operations on them."""
