"""The schema of a run, the rules between its fields, and the conversions between a ConfigDict, JSON and a Config."""

from actlab.config.convert import (
    default,
    fingerprint,
    first_difference,
    flat,
    from_json,
    from_mapping,
    load,
    replace,
    to_json,
)
from actlab.config.rules import require_path
from actlab.config.schema import (
    CLASSES,
    LOSS_UNITS,
    Config,
    DevicesConfig,
    ModelConfig,
    OptimizerConfig,
    Role,
    SwapConfig,
    TrainConfig,
    fields,
    paths,
    traced,
)

__all__ = [
    "CLASSES",
    "Config",
    "DevicesConfig",
    "LOSS_UNITS",
    "ModelConfig",
    "OptimizerConfig",
    "Role",
    "SwapConfig",
    "TrainConfig",
    "default",
    "fields",
    "fingerprint",
    "first_difference",
    "flat",
    "from_json",
    "from_mapping",
    "load",
    "paths",
    "replace",
    "require_path",
    "to_json",
    "traced",
]
