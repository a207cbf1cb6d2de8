"""The decoder: what may see what, what each field changes, what stays equal between activations."""

import functools
import itertools
import math

import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import weights

from actlab import activations, models
from actlab.config import ModelConfig, replace, rotary_scaling
from actlab.errors import UserError
from actlab.models import layers

VARIANTS = [
    {},
    {"model.norm": "rmsnorm", "model.position": "rotary", "model.activation": "swiglu"},
    {"model.norm_position": "post", "model.use_bias": True},
    {"model.tie_embeddings": False, "model.position": "rotary", "model.use_bias": True},
    {"model.position": "rotary", "model.n_kv_heads": 1, "model.d_head": 10, "model.rotary_fraction": 0.4}
    | {"model.rotary_scaling": "llama3(factor=8, low=1, high=4, context=6)"},
    {"model.residual": "parallel", "model.qk_norm": True, "model.n_kv_heads": 1, "model.scale_embeddings": True},
]


def build(tiny, changes):
    model = models.build(replace(tiny, **changes).model)
    tokens = jax.random.randint(jax.random.key(1), (9, 8), 0, 24)
    return model, weights.drawn(model), tokens


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"position": "rotery"}, "config.model.position='rotery' .* 'rotary'"),
        ({"d_model": 6, "n_heads": 4}, "config.model.d_model=6 is not divisible by config.model.n_heads=4"),
        ({"n_layers": 0}, "config.model.n_layers=0 is too small"),
    ],
)
def test_a_model_config_made_by_hand_is_checked(fields, told):
    with pytest.raises(UserError, match=told):
        models.build(ModelConfig(vocab_size=8, **fields))


@functools.cache
def compiled(model):
    return jax.jit(model.apply)


@pytest.mark.parametrize("changes", VARIANTS)
def test_a_position_depends_on_itself_and_on_every_earlier_one_of_its_row_only(tiny, changes):
    model, params, tokens = build(tiny, changes)
    same = jnp.tile(tokens[:1], (9, 1))
    changed = same.at[jnp.arange(8), jnp.arange(8)].add(1) % 24  # in row i token i; the last row stays
    logits = [np.asarray(compiled(model)(params, tokens)[0]) for tokens in (changed, same)]
    difference = np.abs(logits[0] - logits[1]).max(axis=-1)
    np.testing.assert_array_equal(difference > 0, [*np.triu(np.ones((8, 8), bool)), [False] * 8])


@pytest.mark.parametrize("changes", VARIANTS)
def test_a_cache_filled_in_uneven_pieces_gives_the_logits_of_one_pass(tiny, changes):
    model, params, tokens = build(tiny, changes)
    whole, _ = compiled(model)(params, tokens)
    extend, cache, pieces = jax.jit(model.extend), model.empty_cache(len(tokens)), []
    for start, end in itertools.pairwise([0, 3, 4, 7, 8]):  # of two lengths: two programs
        piece, cache = extend(params, tokens[:, start:end], cache, start)
        pieces.append(piece)
    np.testing.assert_allclose(np.concatenate(pieces, axis=1), whole, atol=2e-4, rtol=2e-4)


def test_grouped_heads_are_whole_ones_whose_keys_and_values_are_equal(tiny):
    grouped, params, tokens = build(tiny, {"model.n_kv_heads": 1})
    whole = models.build(tiny.model)

    def repeated(path, leaf):
        if "qkv" not in str(path):
            return leaf
        q, k, v = jnp.split(leaf, (16, 24), axis=-1)
        return jnp.concatenate([q, k, k, v, v], axis=-1)

    copied = jax.tree_util.tree_map_with_path(repeated, params)
    np.testing.assert_allclose(grouped.apply(params, tokens)[0], whole.apply(copied, tokens)[0], atol=1e-4, rtol=1e-4)
    sizes = [models.costs(model).parameters for model in (whole, grouped)]
    assert sizes[0] - sizes[1] == 2 * 16 * 2 * 8  # of 2 layers, keys and values of one head of 8


def test_a_parallel_block_adds_both_sublayers_of_the_same_input(tiny):
    """So that its output lies in the span of the input and of the outputs with one sublayer switched off."""
    model, params, tokens = build(tiny, {"model.residual": "parallel", "model.n_layers": 1, "model.norm": "rmsnorm"})

    hidden = jax.jit(lambda params: model.hidden(params, tokens)[0])

    def stream(*off):
        block = params["block_0"]
        zeroed = {name: {**block[name], last: {"kernel": 0 * block[name][last]["kernel"]}} for name, last in off}
        return hidden({**params, "block_0": {**block, **zeroed}, "final_norm": {"scale": jnp.ones(16)}})

    attention, feed_forward = ("attention", "out"), ("feed_forward", "down")
    parts = [np.asarray(stream(*off)) for off in ((), (feed_forward,), (attention,), (attention, feed_forward))]
    whole, attended, fed, neither = (part.reshape(-1, 16) for part in parts)
    for row in range(len(whole)):
        basis = np.stack([attended[row], fed[row], neither[row]], axis=1)
        solution, *_ = np.linalg.lstsq(basis, whole[row], rcond=None)
        np.testing.assert_allclose(basis @ solution, whole[row], atol=1e-3)


def test_rotary_scaling_slows_down_what_turns_slowly():
    speeds = jnp.array([2.0, 0.5, 0.1, 0.01])
    scaling = rotary_scaling("llama3(factor=4, low=1, high=4, context=50)")
    slowed = np.asarray(layers.slowed(speeds, scaling))
    turns = 50 * np.asarray(speeds) / (2 * np.pi)  # 15.9, 3.98, 0.80, 0.08
    kept = (turns[1] - 1) / 3
    np.testing.assert_allclose(slowed, [2.0, kept * 0.5 + (1 - kept) * 0.125, 0.025, 0.0025], rtol=1e-6)
    np.testing.assert_allclose(layers.slowed(speeds, rotary_scaling("linear(factor=4)")), speeds / 4)


def test_a_share_of_each_head_rotates_and_the_rest_stays():
    x = jax.random.normal(jax.random.key(0), (1, 3, 2, 10))
    rotate = lambda x, *share: layers.rotate(x, jnp.arange(3), 100.0, *share)
    turned, alone = jax.jit(lambda x: (rotate(x, 4), rotate(x[..., :4])))(x)
    np.testing.assert_array_equal(turned[..., 4:], x[..., 4:])
    np.testing.assert_array_equal(turned[..., :4], alone)


def test_normed_queries_and_keys_do_not_depend_on_their_size(tiny):
    model, params, tokens = build(tiny, {"model.qk_norm": True, "model.norm_epsilon": 1e-12})

    def larger(path, leaf):
        return leaf.at[:, :32].multiply(3.0) if "qkv" in str(path) else leaf

    bigger = jax.tree_util.tree_map_with_path(larger, params)
    np.testing.assert_allclose(model.apply(params, tokens)[0], model.apply(bigger, tokens)[0], atol=1e-3, rtol=1e-3)


def test_normed_queries_and_keys_are_not_centred(tiny):
    model, params, tokens = build(tiny, {"model.qk_norm": True, "model.use_bias": True})
    params["block_0"]["attention"]["qkv"]["bias"] += jnp.arange(48) < 16
    moved = model.apply(params, tokens)[0]
    params["block_0"]["attention"]["qkv"]["bias"] += jnp.arange(48) < 16
    assert np.abs(model.apply(params, tokens)[0] - moved).max() > 1e-5


def test_rotary_attention_depends_on_distance_only():
    q, k = jax.random.normal(jax.random.key(0), (2, 1, 1, 1, 8))
    turn = lambda x, position: layers.rotate(x, jnp.array([position]), 10_000.0)
    score = jax.jit(lambda i, j: jnp.sum(turn(q, i) * turn(k, j)))
    np.testing.assert_allclose(score(7, 3), score(104, 100), rtol=1e-4)
    assert abs(score(7, 3) - score(3, 7)) > 1e-3


@pytest.mark.parametrize("base", [10_000.0, 500.0])
def test_rotary_turns_each_pair_at_its_own_frequency(base):
    x = np.random.default_rng(0).normal(size=(1, 3, 1, 6)).astype(np.float32)
    turned = np.asarray(jax.jit(lambda x: layers.rotate(x, jnp.array([0, 1, 7]), base))(x))
    for row, position in enumerate([0, 1, 7]):
        for k in range(3):
            angle = position * base ** (-k / 3)
            pair = (x[0, row, 0, k] + 1j * x[0, row, 0, k + 3]) * np.exp(1j * angle)
            np.testing.assert_allclose(turned[0, row, 0, [k, k + 3]], [pair.real, pair.imag], atol=1e-5)


@pytest.mark.parametrize("kind", ["layernorm", "rmsnorm"])
@pytest.mark.parametrize("epsilon", [1e-5, 0.5])
def test_norms_are_their_formulas(tiny, kind, epsilon):
    changes = {"model.norm": kind, "model.norm_epsilon": epsilon, "model.use_bias": True}
    spec = models.build(replace(tiny, **changes).model).spec
    x = np.random.default_rng(0).normal(3.0, 2.0, size=(4, 16)).astype(np.float32)
    found, _ = jax.jit(layers.stream_norm(spec, "norm").init_with_output)(jax.random.key(0), x)
    centred = x - x.mean(-1, keepdims=True) if kind == "layernorm" else x
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "peer"), [("layernorm", flax.linen.LayerNorm), ("rmsnorm", flax.linen.RMSNorm)])
def test_norms_have_the_gradients_of_flaxs(tiny, kind, peer):
    changes = {"model.norm": kind, "model.norm_epsilon": 0.5, "model.use_bias": True}
    spec = models.build(replace(tiny, **changes).model).spec
    x, weigh = 3 + 2 * jax.random.normal(jax.random.key(0), (2, 4, 16))
    params = jax.tree.map(lambda a: a + 0.5, layers.stream_norm(spec, "norm").init(jax.random.key(0), x)["params"])
    weighed = lambda norm: lambda p, x: (norm.apply({"params": p}, x) * weigh).sum()
    slopes = lambda norm: jax.jit(jax.grad(weighed(norm), (0, 1)))(params, x)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    jax.tree.map(close, slopes(layers.stream_norm(spec, "norm")), slopes(peer(epsilon=0.5)))


@pytest.mark.parametrize("position", ["learned", "rotary"])
def test_more_tokens_than_the_context_are_an_error_not_a_nan(tiny, position):
    model = models.build(replace(tiny, **{"model.position": position}).model)
    params = weights.drawn(model)
    with pytest.raises(ValueError, match="context of 8"):
        model.apply(params, jnp.zeros((1, 9), int))
    with pytest.raises(ValueError, match="from position 6"):
        model.extend(params, jnp.zeros((1, 3), int), model.empty_cache(1), 6)


@pytest.mark.parametrize(("d_in", "d_out"), [(3, 4), (4, 3)])
def test_project_has_the_gradients_of_a_matrix_product(d_in, d_out):
    x, w = jax.random.normal(jax.random.key(0), (5, d_in)), jax.random.normal(jax.random.key(1), (d_in, d_out))
    slopes = lambda product: jax.jit(jax.grad(lambda x, w: jnp.sin(product(x, w)).sum(), (0, 1)))(x, w)
    for ours, plain in zip(slopes(layers.project), slopes(jnp.matmul), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-6)


def test_initialisation_is_gpt2s(tiny):
    config = replace(tiny, **{"model.d_model": 128, "model.n_layers": 8, "model.use_bias": True})
    init = models.build(config.model).init
    block, table = jax.jit(lambda key: [init(key)[name] for name in ("block_3", "token_embedding")])(jax.random.key(3))
    for kernel in (block["attention"]["qkv"], block["feed_forward"]["up"]):
        assert np.std(kernel["kernel"]) == pytest.approx(0.02, rel=0.03)
    for kernel in (block["attention"]["out"], block["feed_forward"]["down"]):
        assert np.std(kernel["kernel"]) == pytest.approx(0.02 / 4, rel=0.03)
    assert not np.any(block["attention"]["qkv"]["bias"])
    assert np.std(table["embedding"]) == pytest.approx(0.02, rel=0.05)


def test_arrays_of_one_name_and_shape_start_equal_whatever_the_activation(tiny):
    inits = {
        name: models.build(replace(tiny, **{"model.activation": name}).model).init(jax.random.key(7))
        for name in ("relu", "gelu", "swiglu", "prelu", "polynorm")
    }
    theirs = dict(jax.tree_util.tree_leaves_with_path(inits["relu"]))
    for name, params in inits.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(params):
            if path in theirs and theirs[path].shape == leaf.shape:
                np.testing.assert_array_equal(leaf, theirs[path], err_msg=f"{name} {path}")


@pytest.mark.parametrize(("name", "scalars"), [("swish", {"beta": 1.0}), ("prelu", {"slope": 0.25}), ("gelu", {})])
def test_scalars_of_an_activation_are_float32_parameters_that_learn(tiny, name, scalars):
    model, params, tokens = build(tiny, {"model.activation": name})

    @jax.jit
    def start(key):
        layer = model.init(key)["block_1"]["feed_forward"]
        return {name: leaf for name, leaf in layer.items() if name.startswith("activation_")}

    found = start(jax.random.key(0))
    assert {name: float(leaf) for name, leaf in found.items()} == {f"activation_{k}": v for k, v in scalars.items()}
    assert all(leaf.shape == () and leaf.dtype == jnp.float32 for leaf in found.values())
    params["block_1"]["feed_forward"] |= found
    slopes = jax.jit(jax.grad(lambda p: jnp.square(model.apply(p, tokens)[0]).mean()))(params)
    assert all(slopes["block_1"]["feed_forward"][name] != 0 for name in found)


def test_shapes_are_those_of_the_function_that_a_name_stands_for(tiny):
    """A cell of a notebook may give an edited activation other scalars to learn."""
    found = []
    for theta in ("a", "b"):
        names = {}
        exec(compile(f"def mine(x, {theta}=1.0): return {theta} * x", f"<ipython-input-{theta}>", "exec"), names)
        activations.register(activations.Activation("mine", names["mine"], "x", "me", theta={theta: 1.0}))
        layer = models.shapes(models.build(replace(tiny, **{"model.activation": "mine"}).model))["block_1"]
        found.append([name for name in layer["feed_forward"] if name.startswith("activation_")])
    assert found == [["activation_a"], ["activation_b"]]


def test_a_name_with_parameters_builds_its_own_function(tiny):
    logits = {}
    for name in ("relu", "gelu_scale(s=0)", "gelu_scale(s=0.5)", "drelu", "reglu"):
        model, params, tokens = build(tiny, {"model.activation": name})
        logits[name] = np.asarray(model.apply(params, tokens)[0])
    np.testing.assert_array_equal(logits["relu"], logits["gelu_scale(s=0)"])
    assert not np.allclose(logits["relu"], logits["gelu_scale(s=0.5)"], atol=1e-7)
    assert not np.allclose(logits["reglu"], logits["drelu"], atol=1e-7)


@pytest.mark.parametrize(("d_ff", "d_hidden"), [(1536, 1024), (3072, 2048), (512, 344), (8, 8)])
def test_gated_width_is_two_thirds_in_multiples_of_eight_with_the_mismatch_told(tiny, d_ff, d_hidden):
    costs = models.costs(models.build(replace(tiny, **{"model.activation": "swiglu", "model.d_ff": d_ff}).model))
    plain = models.costs(models.build(replace(tiny, **{"model.activation": "gelu", "model.d_ff": d_ff}).model))
    d_model, n_layers = 16, 2
    assert costs.parameters - plain.parameters == n_layers * d_model * (3 * d_hidden - 2 * d_ff)
    assert costs.gated_mismatch == pytest.approx(3 * d_hidden / (2 * d_ff) - 1)
    assert plain.gated_mismatch == 0


@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_d_hidden_is_the_width_itself(tiny, activation):
    model = models.build(replace(tiny, **{"model.activation": activation, "model.d_hidden": 37}).model)
    shapes = models.shapes(model)["block_0"]["feed_forward"]
    assert shapes["up"]["kernel"].shape == (16, 37)


def test_the_rotary_base_is_a_field(tiny):
    logits = []
    for base in (10_000.0, 100.0):
        model, params, tokens = build(tiny, {"model.position": "rotary", "model.rotary_base": base})
        logits.append(model.apply(params, tokens)[0])
    assert np.abs(logits[0] - logits[1]).max() > 1e-3


def test_costs_count_what_is_there(tiny):
    wide = {"model.d_model": 128, "model.activation": "relu", "model.tie_embeddings": False}
    model = models.build(replace(tiny, **wide).model)
    params = weights.drawn(model)
    costs = models.costs(model)
    assert costs.parameters == sum(leaf.size for leaf in jax.tree.leaves(params))
    assert costs.parameters - costs.non_embedding == (24 + 24 + 8) * 128
    assert costs.flops_per_token / 3 < counted(model, params, (4, 8)) < costs.flops_per_token / 3 * 1.05


def counted(model, params, shape):
    """FLOPs of a token by the compiler, which also counts norms and softmax."""
    compiled = jax.jit(lambda p, t: model.apply(p, t)[0]).lower(params, jnp.zeros(shape, int)).compile()
    return compiled.cost_analysis()["flops"] / math.prod(shape)


def test_costs_count_attention_to_every_token(tiny):
    long = {"model.d_model": 64, "model.n_heads": 2, "model.context": 512, "model.activation": "relu"}
    model = models.build(replace(tiny, **long).model)
    costs = models.costs(model)
    attention = 12 * 2 * 512 * 64
    assert attention > costs.flops_per_token / 2
    # Softmax takes some operations a score, where the products take 4 d_head = 128.
    forward = counted(model, weights.drawn(model), (1, 512))
    assert costs.flops_per_token / 3 < forward < costs.flops_per_token / 3 * 1.15


def test_the_paper_preset_has_about_30_million_parameters_and_char_10_7(tiny):
    from actlab import config
    from actlab.config import presets

    sizes = {}
    for preset in ("char", "paper"):
        resolved = replace(
            config.from_mapping(presets.tinystories(preset, {}).to_dict()), **{"model.vocab_size": 50_304}
        )
        costs = models.costs(models.build(resolved.model))
        sizes[preset] = (costs.parameters, costs.non_embedding)
    assert sizes["char"][1] == pytest.approx(10.7e6, rel=0.01)
    assert sizes["paper"][0] == pytest.approx(30e6, rel=0.01)


def test_hidden_units_that_nobody_uses_cost_nothing(tiny):
    model = models.build(tiny.model)
    params = weights.drawn(model)
    tokens = jnp.zeros((4, 8), int)

    def flops(function):
        return jax.jit(function).lower(params, tokens).compile().cost_analysis()["flops"]

    def loud(params, tokens):
        logits, hidden = model.apply(params, tokens)
        return logits, [units.z_TF.mean() + units.a_TF.mean() for units in hidden]

    spec = model.spec
    terms = 2 * 2 * tokens.size * spec.d_hidden  # two means in two layers
    assert flops(loud) - flops(lambda p, t: model.apply(p, t)[0]) == pytest.approx(terms, rel=0.1)


def test_hidden_units_are_those_of_the_feed_forward(tiny):
    model, params, tokens = build(tiny, {"model.activation": "relu"})
    _, hidden = model.apply(params, tokens)
    assert len(hidden) == 2
    first = params["block_0"]
    x = params["token_embedding"]["embedding"][tokens] + params["position_embedding"]["embedding"][None]
    spec = model.spec
    norm = lambda name, value: layers.stream_norm(spec, name).apply({"params": first[name]}, value)

    @jax.jit
    def inputs(flat):
        attended, _ = layers.Attention(spec).apply({"params": first["attention"]}, norm("attention_norm", flat), 8)
        return norm("feed_forward_norm", flat + attended) @ first["feed_forward"]["up"]["kernel"]

    z = inputs(x.reshape(-1, 16))
    np.testing.assert_allclose(hidden[0].z_TF, z, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(hidden[0].a_TF, np.maximum(z, 0), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_a_shift_is_added_to_the_inputs_of_its_layers_units(tiny, norm_position):
    model, params, tokens = build(tiny, {"model.activation": "swiglu", "model.norm_position": norm_position})
    logits, hidden = model.apply(params, tokens)
    shifts = (jnp.zeros_like(hidden[0].z_TF), 0.5 + jnp.zeros_like(hidden[1].z_TF))
    shifted_logits, shifted = model.apply(params, tokens, shifts)
    np.testing.assert_array_equal(shifted[0].z_TF, hidden[0].z_TF)
    np.testing.assert_allclose(shifted[1].z_TF, hidden[1].z_TF + 0.5, rtol=1e-6)
    assert not np.allclose(shifted_logits, logits)


def test_bfloat16_compute_keeps_float32_parameters_and_logits(tiny):
    model = models.build(tiny.model, jnp.bfloat16)
    params = weights.drawn(model, 0.02)
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("float32")}
    tokens = jnp.arange(8)[None]
    logits, _ = jax.jit(model.apply)(params, tokens)
    exact, _ = jax.jit(models.build(tiny.model).apply)(params, tokens)
    assert logits.dtype == jnp.float32
    assert (logits != logits.astype(jnp.bfloat16)).any(), "the output product must not be rounded to bfloat16"
    assert 0 < np.abs(logits - exact).max() < 0.02
