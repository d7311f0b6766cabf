"""PyTorch's files: what `torch.save` writes, read without torch and without running what is in them."""
