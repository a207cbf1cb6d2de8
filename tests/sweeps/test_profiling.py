"""The profile: a trace on disk, operations named by their place in the model, nothing trained."""

import pytest

from actlab.config import replace
from actlab.errors import UserError
from actlab.sweeps import profiling, session


def test_a_profile_traces_some_updates_and_trains_nothing(small_sweep, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(profiling, "N_SHOWN", 10**6)  # which are the slowest depends on what else runs
    config = replace(small_sweep, **{"sweep": {}, "model.activation": "relu"})
    assert session.run(config, "x", tmp_path / "w", ["test"], profile=tmp_path / "trace") == 0
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
    assert session.run(config, "x", None, ["test"], profile=tmp_path / "trace") == 0
    assert "2 steps of 2 lane(s); trace in" in capsys.readouterr().out


def test_places_are_names_without_loops_numbers_and_jaxs_wrappers():
    path = "jit(train)/while/body/closed_call/while/body/transpose(jvp(Decoder))/block_11/attention/qkv/dot_general"
    program = f'  ROOT %dot.3 = f32[2,2]{{1,0}} dot(%a, %b), metadata={{op_name="{path}" stack_frame_id=7}}'
    assert profiling.instructions(program) == {"dot.3": "backward/block_*/attention/qkv/dot_general"}


def test_time_of_an_operation_inside_another_counts_once():
    events = [(0.0, 10.0, "while"), (1.0, 4.0, "dot"), (2.0, 3.0, "copy"), (5.0, 6.0, "dot"), (10.0, 12.0, "add")]
    assert profiling._own_times(events) == [("while", 6.0), ("dot", 2.0), ("copy", 1.0), ("dot", 1.0), ("add", 2.0)]


def test_a_folder_that_cannot_be_made_is_a_fault_of_the_user(small_sweep, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--profile=.*cannot be made"):
        session.run(small_sweep, "x", None, ["test"], profile=tmp_path / "file" / "trace")
