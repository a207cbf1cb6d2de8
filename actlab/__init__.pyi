from actlab import activations as activations
from actlab import analysis as analysis
from actlab import claims as claims
from actlab import config as config
from actlab import data as data
from actlab import interop as interop
from actlab import models as models
from actlab import sweeps as sweeps
from actlab import training as training
from actlab import workdir as workdir
from actlab.api import compare as compare
from actlab.api import train as train

__version__: str
