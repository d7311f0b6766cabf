"""PyTorch files, without torch and without executing pickles."""
