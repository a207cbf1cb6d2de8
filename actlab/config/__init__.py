"""The schema of a run, the rules between its fields, and the conversions between a ConfigDict, JSON and a Config."""

from actlab.config.convert import (
    default as default,
)
from actlab.config.convert import (
    fingerprint as fingerprint,
)
from actlab.config.convert import (
    first_difference as first_difference,
)
from actlab.config.convert import (
    flat as flat,
)
from actlab.config.convert import (
    from_json as from_json,
)
from actlab.config.convert import (
    from_mapping as from_mapping,
)
from actlab.config.convert import (
    load as load,
)
from actlab.config.convert import (
    replace as replace,
)
from actlab.config.convert import (
    to_json as to_json,
)
from actlab.config.rules import (
    RotaryScaling as RotaryScaling,
)
from actlab.config.rules import (
    require_path as require_path,
)
from actlab.config.rules import (
    rotary_scaling as rotary_scaling,
)
from actlab.config.schema import (
    CLASSES as CLASSES,
)
from actlab.config.schema import (
    LOSS_UNITS as LOSS_UNITS,
)
from actlab.config.schema import (
    Config as Config,
)
from actlab.config.schema import (
    DevicesConfig as DevicesConfig,
)
from actlab.config.schema import (
    ModelConfig as ModelConfig,
)
from actlab.config.schema import (
    OptimizerConfig as OptimizerConfig,
)
from actlab.config.schema import (
    Role as Role,
)
from actlab.config.schema import (
    SwapConfig as SwapConfig,
)
from actlab.config.schema import (
    TrainConfig as TrainConfig,
)
from actlab.config.schema import (
    fields as fields,
)
from actlab.config.schema import (
    paths as paths,
)
from actlab.config.schema import (
    traced as traced,
)
