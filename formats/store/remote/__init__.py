"""Servers: web servers, the Hugging Face Hub, buckets."""
