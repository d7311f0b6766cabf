"""The version of ckpt. All workers must have the same (`formats.store.work.executors`)."""

VERSION = "1.0.0.dev0"
