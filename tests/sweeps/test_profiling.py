"""The profile: a trace on disk, operations named by their place in the model, nothing trained."""

import jax
import pytest

from actlab.config import replace
from actlab.sweeps import profiling, session


def test_a_profile_traces_some_updates_and_trains_nothing(small_sweep, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(profiling, "N_SHOWN", 10**6)  # which are the slowest depends on what else runs
    config = replace(small_sweep, **{"sweep": {}, "model.activation": "relu"})
    assert session.profile(config, tmp_path / "trace") is None
    printed = capsys.readouterr().out
    assert list((tmp_path / "trace").rglob("*.xplane.pb")) and not (tmp_path / "w").exists()
    assert "2 steps of 1 lane" in printed
    assert "backward/block_*/feed_forward/up/dot_general" in printed
    found = profiling.operations(tmp_path / "trace", {})
    assert all(operation.calls > 0 and operation.milliseconds >= 0 for operation in found)
    times = [operation.milliseconds for operation in found]
    assert times == sorted(times, reverse=True) and sum(times) > 0


def test_of_a_sweep_as_many_lanes_are_traced_as_a_program_may_have(small_sweep, tmp_path, capsys):
    config = replace(small_sweep, **{"devices.max_lanes": 2})
    assert session.profile(config, tmp_path / "trace") is None
    assert "2 steps of 2 lanes; trace in" in capsys.readouterr().out


@pytest.mark.parametrize(("most", "expected"), [(1, 2), (3, 2), (4, 4), (None, 4)])
def test_the_lanes_that_are_traced_can_be_split_over_the_devices(small_sweep, tmp_path, monkeypatch, most, expected):
    traced = []
    monkeypatch.setattr(profiling, "run", lambda console, spec, folder: traced.append(len(spec.names)))
    changes = {"devices.max_lanes": most, "devices.lane": 2, "sweep": {"seed": (1, 2, 3, 4)}}
    session.profile(replace(small_sweep, **changes), tmp_path)
    assert traced == [expected]


def test_places_are_names_without_loops_numbers_and_jaxs_wrappers():
    path = "jit(train)/while/body/closed_call/while/body/transpose(jvp(Decoder))/block_11/attention/qkv/dot_general"
    program = f'  ROOT %dot.3 = f32[2,2]{{1,0}} dot(%a, %b), metadata={{op_name="{path}" stack_frame_id=7}}'
    assert profiling.instructions(program) == {"dot.3": "backward/block_*/attention/qkv/dot_general"}


def test_kernels_of_a_gpus_graph_are_named_by_their_instructions(tmp_path):
    graph = "command_buffer_7"
    kernels = [(graph, "all_fusion_13"), (graph, "void (unnamed)::nvjet_64x6(void*)"), ("copy.2", "memcpy")]
    events = "".join(
        f"events {{ metadata_id: {index} offset_ps: {index * 1_000_000} duration_ps: {9_000_000 // index} "
        f'stats {{ metadata_id: 1 str_value: "{operation}" }} }}'
        for index, (operation, _) in enumerate(kernels, 1)
    )
    metadata = "".join(
        f'event_metadata {{ key: {index} value {{ id: {index} name: "{kernel}" }} }}'
        for index, (_, kernel) in enumerate(kernels, 1)
    )
    text = f"""planes {{ name: "/device:GPU:0" lines {{ name: "Stream #1" {events} }} {metadata}
        stat_metadata {{ key: 1 value {{ id: 1 name: "hlo_op" }} }} }}"""
    (tmp_path / "a.xplane.pb").write_bytes(jax.profiler.ProfileData.text_proto_to_serialized_xspace(text))
    found = profiling.operations(tmp_path, {"all-fusion.13": "forward/block_*/feed_forward/gelu"})
    names = [operation.name for operation in found]
    assert names == ["forward/block_*/feed_forward/gelu", "void (unnamed)::nvjet_64x6", "copy"]
    times = [operation.milliseconds for operation in found]
    assert times == pytest.approx([0.009, 0.0045, 0.003]), "side by side, so that each keeps its own"


def test_time_of_an_operation_inside_another_counts_once():
    events = [(0.0, 10.0, "while"), (1.0, 4.0, "dot"), (2.0, 3.0, "copy"), (5.0, 6.0, "dot"), (10.0, 12.0, "add")]
    assert profiling._own_times(events) == [("while", 6.0), ("dot", 2.0), ("copy", 1.0), ("dot", 1.0), ("add", 2.0)]


def test_a_folder_that_cannot_be_made_is_named(small_sweep, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file/trace"):
        session.profile(small_sweep, tmp_path / "file" / "trace")
