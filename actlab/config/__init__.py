"""The schema of a run, the rules between its fields, and the conversions between a ConfigDict, JSON and a Config."""

from actlab.config.convert import (
    default as default,
    fingerprint as fingerprint,
    first_difference as first_difference,
    flat as flat,
    from_json as from_json,
    from_mapping as from_mapping,
    load as load,
    replace as replace,
    to_json as to_json,
)
from actlab.config.rules import (
    RotaryScaling as RotaryScaling,
    require_model as require_model,
    require_path as require_path,
    rotary_scaling as rotary_scaling,
)
from actlab.config.schema import (
    CLASSES as CLASSES,
    LOSS_UNITS as LOSS_UNITS,
    Config as Config,
    DevicesConfig as DevicesConfig,
    ModelConfig as ModelConfig,
    OptimizerConfig as OptimizerConfig,
    Role as Role,
    SwapConfig as SwapConfig,
    TrainConfig as TrainConfig,
    fields as fields,
    loss_unit as loss_unit,
    paths as paths,
    traced as traced,
)
