from actlab import (
    activations as activations,
    analysis as analysis,
    claims as claims,
    config as config,
    data as data,
    interop as interop,
    models as models,
    sweeps as sweeps,
    training as training,
    workdir as workdir,
)
from actlab.api import compare as compare, load as load, train as train

__version__: str
