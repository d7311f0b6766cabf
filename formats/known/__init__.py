"""One file a format; each is found by lying here."""
