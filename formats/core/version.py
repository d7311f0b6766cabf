"""Which ckpt this is: who shares the work must be the same (`formats.store.work.executors`)."""

VERSION = "1.0.0.dev0"
