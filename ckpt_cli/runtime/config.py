"""tf.config: there is one device, a CPU, and everything runs eagerly; settings of both have no effect."""

from __future__ import annotations

from typing import Any, NamedTuple

from .unknown import absent, namespace

__all__ = [
    "experimental", "functions_run_eagerly", "list_logical_devices", "list_physical_devices",
    "run_functions_eagerly", "set_visible_devices",
]  # fmt: skip


class PhysicalDevice(NamedTuple):
    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    name: str
    device_type: str


_is_eager = [False]


def list_physical_devices(device_type: str | None = None) -> list[Any]:
    return [PhysicalDevice("/physical_device:CPU:0", "CPU")] if device_type in (None, "CPU") else []


def list_logical_devices(device_type: str | None = None) -> list[Any]:
    return [LogicalDevice("/device:CPU:0", "CPU")] if device_type in (None, "CPU") else []


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Note what `functions_run_eagerly` returns; functions always run eagerly here."""
    _is_eager[0] = run_eagerly


def functions_run_eagerly() -> bool:
    return _is_eager[0]


def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Accept the one device, and none of another type."""
    given = devices if isinstance(devices, list | tuple) else [devices]
    for one in given:
        if one is not None and getattr(one, "device_type", None) != "CPU":
            raise ValueError(f"Unrecognized device: {one!r}")


def set_memory_growth(device: Any, enable: bool) -> None:
    raise ValueError("Cannot set memory growth on non-GPU and non-Pluggable devices")


experimental = namespace("config.experimental", set_memory_growth=set_memory_growth)


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
