"""Weights of Hugging Face's transformers: TensorFlow's and Flax' names and axes, and PyTorch's."""
