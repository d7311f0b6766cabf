"""Tasks, and the threads, processes and clusters that run them."""
