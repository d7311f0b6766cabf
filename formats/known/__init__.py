"""One module per format; the registry finds every module of this folder."""
