"""Rules between the fields of a config, each within its own bounds already."""

from actlab.errors import UserError
from actlab.schema import CLASSES, Config, ModelConfig


def check(config: Config) -> None:
    """Raises UserError for fields at odds with each other."""
    _check_finetuning(config)
    _check_heads(config.model)
    _check_packing(config)
    _check_readout(config.model)
    _check_steps(config)


def _check_heads(model: ModelConfig) -> None:
    if model.d_model % model.n_heads:
        raise UserError(
            f"config.model.d_model={model.d_model} is not divisible by config.model.n_heads={model.n_heads}: "
            f"take a d_model that is a multiple of {model.n_heads}, or another number of heads."
        )
    if model.position == "rotary" and (model.d_model // model.n_heads) % 2:
        raise UserError(
            f"config.model.position='rotary' rotates pairs, but heads of size {model.d_model // model.n_heads} "
            "are odd: change config.model.d_model or config.model.n_heads."
        )


def _check_packing(config: Config) -> None:
    if config.data.packing == "padded" and config.data.corruption != "none":
        raise UserError(
            f"config.data.corruption={config.data.corruption!r} has no documents to pad: "
            "set config.data.packing='packed'."
        )
    if config.model.kind == "decoder" and config.data.packing == "padded":
        raise UserError(
            "config.data.packing='padded' is for encoders, which can be told what is padding: "
            "set config.model.kind='encoder' or packing='packed'."
        )


def _check_readout(model: ModelConfig) -> None:
    if model.kind == "decoder" and model.n_classes:
        raise UserError(
            f"config.model.n_classes={model.n_classes} needs a pooler, which a decoder has not: "
            "set config.model.kind='encoder' or n_classes=0."
        )
    if not model.n_classes and model.pooler_activation != ModelConfig.pooler_activation:
        raise UserError(
            f"config.model.pooler_activation={model.pooler_activation!r} changes nothing where "
            "config.model.n_classes=0 leaves out the pooler: set n_classes, or leave the activation alone."
        )
    if model.kind == "decoder" and model.head_activation != ModelConfig.head_activation:
        raise UserError(
            f"config.model.head_activation={model.head_activation!r} changes nothing in a decoder: "
            "set config.model.kind='encoder', or leave the activation alone."
        )
    if model.n_classes and model.head_activation != ModelConfig.head_activation:
        raise UserError(
            f"config.model.head_activation={model.head_activation!r} changes nothing where "
            f"config.model.n_classes={model.n_classes} leaves out the masked-token head: set n_classes=0, or leave the "
            "activation alone."
        )


def _check_steps(config: Config) -> None:
    train, optimizer = config.train, config.optimizer
    if train.checkpoint_every % train.eval_every:
        raise UserError(
            f"config.train.checkpoint_every={train.checkpoint_every} is not a multiple of "
            f"config.train.eval_every={train.eval_every}: make it one, so that every checkpoint has a validation loss."
        )
    if optimizer.warmup_steps > train.n_steps:
        raise UserError(
            f"config.optimizer.warmup_steps={optimizer.warmup_steps} is longer than the run of "
            f"config.train.n_steps={train.n_steps}: shorten the warmup."
        )


def _check_finetuning(config: Config) -> None:
    model, finetune, swap = config.model, config.finetune, config.finetune.swap
    classes = CLASSES.get(finetune.task)
    if classes is not None and model.n_classes != classes:
        raise UserError(
            f"config.finetune.task={finetune.task!r} has {classes} classes, but config.model.n_classes="
            f"{model.n_classes}: set it to {classes}, with config.model.kind='encoder'."
        )
    if swap.from_ and swap.from_ != model.activation:
        raise UserError(
            f"config.finetune.swap.from={swap.from_!r} is not the model's activation, "
            f"config.model.activation={model.activation!r}: make them the same."
        )
    if swap.blocks > model.n_layers:
        raise UserError(
            f"config.finetune.swap.blocks={swap.blocks} is more than config.model.n_layers={model.n_layers}: "
            "replace the activation in as many at most."
        )
    if swap.blocks and not (swap.from_ and swap.to and finetune.from_checkpoint):
        raise UserError(
            f"config.finetune.swap.blocks={swap.blocks} needs config.finetune.swap.from, config.finetune.swap.to and "
            "the trained model, config.finetune.from_checkpoint: set all three."
        )
    if finetune.task and config.data.corruption != "none":
        raise UserError(
            f"config.data.corruption={config.data.corruption!r} leaves no document for config.finetune.task="
            f"{finetune.task!r} to tell: set corruption='none'."
        )
    if finetune.fold and model.activation_norm != "none":
        raise UserError(
            f"config.finetune.fold=True keeps no mean through config.model.activation_norm={model.activation_norm!r}: "
            "take a model without, or fold=False."
        )
    if finetune.fold and not model.use_bias:
        raise UserError(
            "config.finetune.fold=True needs a bias to fold the mean into, but config.model.use_bias=False: "
            "take a model with biases, or fold=False."
        )
