"""What commands found, as one list that services can be told."""
