"""The functions that other processes call: their names import `ckpt_cli` first, which finds its own
`formats`.
"""

from formats.store.work.dask import cancel_run, dask_setup
from formats.store.work.executors import begin_worker, work_on

__all__ = ["begin_worker", "cancel_run", "dask_setup", "work_on"]
