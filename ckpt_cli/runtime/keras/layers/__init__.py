"""tf.keras.layers."""

from __future__ import annotations

from ...unknown import absent
from ..base_layer import Layer
from . import attention, convolution, core, framing, normalization, preprocessing, recurrent, structural
from .attention import *  # noqa: F403
from .attention import GroupQueryAttention as GroupQueryAttention  # of Keras 3
from .convolution import *  # noqa: F403
from .core import *  # noqa: F403
from .framing import *  # noqa: F403
from .normalization import *  # noqa: F403
from .normalization import RMSNormalization as RMSNormalization  # of Keras 3
from .preprocessing import *  # noqa: F403
from .recurrent import *  # noqa: F403
from .structural import *  # noqa: F403

_ALIASES = {
    "AvgPool1D": "AveragePooling1D", "AvgPool2D": "AveragePooling2D", "AvgPool3D": "AveragePooling3D",
    "Convolution1D": "Conv1D", "Convolution2D": "Conv2D", "Convolution2DTranspose": "Conv2DTranspose",
    "Convolution3D": "Conv3D", "MaxPool1D": "MaxPooling1D", "MaxPool2D": "MaxPooling2D",
    "MaxPool3D": "MaxPooling3D", "SeparableConvolution2D": "SeparableConv2D",
}  # fmt: skip
globals().update({alias: globals()[name] for alias, name in _ALIASES.items()})

__all__ = [  # noqa: PLE0604
    "Layer", *_ALIASES, *attention.__all__, *convolution.__all__, *core.__all__, *framing.__all__,
    *normalization.__all__, *preprocessing.__all__, *recurrent.__all__, *structural.__all__,
]  # fmt: skip


def __getattr__(name: str) -> object:
    raise absent(__name__, name)
