"""What the tests of training share."""

import pytest

from actlab import config as config_lib
from actlab.config import Config


@pytest.fixture(scope="session")
def tiny(tiny) -> Config:
    """The smallest model with one layer: what training does is no matter of depth, and it compiles in less time."""
    return config_lib.replace(tiny, **{"model.n_layers": 1})
