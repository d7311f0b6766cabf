"""Which ckpt this is: who shares the work must be the same (`formats.store.work.executors`)."""

VERSION = "0.1.0"
