"""Checkpoints: exact, sealed, verified; damage is noticed and the step before taken."""

import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab.errors import UserError
from actlab.training.checkpoint import SEAL, Checkpoints


def state_at(step, shape=(3, 4), dtype=jnp.float32):
    kernel = jax.random.normal(jax.random.key(step), shape, dtype)
    return {"step": jnp.int32(step), "params": {"kernel": kernel, "bias": jnp.ones(4)}}


ABSTRACT = jax.eval_shape(lambda: state_at(0))


def saved(folder, steps, keep=2):
    checkpoints = Checkpoints(folder, keep)
    for step in steps:
        checkpoints.save(step, state_at(step))
    checkpoints.close()


def restored(folder, **options):
    checkpoints = Checkpoints(folder, **options)
    result = checkpoints.restore_latest(ABSTRACT)
    checkpoints.close()
    return result


def present(folder):
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def largest_file(folder):
    return max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)


def flip_a_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_the_newest_step_comes_back_bit_for_bit(tmp_path):
    saved(tmp_path / "c", [10, 20])
    (tmp_path / "c" / "20" / ".DS_Store").write_text("a stray file does no harm")
    state, step, notes = restored(tmp_path / "c")
    assert (step, notes) == (20, [])
    jax.tree.map(np.testing.assert_array_equal, state, state_at(20))


def test_an_empty_folder_holds_nothing(tmp_path):
    assert restored(tmp_path / "c") == (None, 0, [])


@pytest.mark.parametrize("keep", [2, 3])
def test_the_newest_steps_are_kept_also_after_a_resume(tmp_path, keep):
    saved(tmp_path / "c", [1, 2, 3, 4], keep)
    assert present(tmp_path / "c") == [1, 2, 3, 4][-keep:]
    saved(tmp_path / "c", [5], keep)
    assert present(tmp_path / "c") == [2, 3, 4, 5][-keep:]


def test_a_callers_transfer_guard_does_not_reach_the_copy_to_the_host(tmp_path, monkeypatch):
    # On CPU the guard never fires, so ask for it at the place where an accelerator would raise.
    checkpoints, state, seen = Checkpoints(tmp_path / "c", 2), state_at(10), []
    save = checkpoints._manager.save

    def spy(*arguments, **options):
        seen.append(jax.config.jax_transfer_guard_device_to_host)
        return save(*arguments, **options)

    monkeypatch.setattr(checkpoints._manager, "save", spy)
    with jax.transfer_guard("disallow"):
        assert jax.config.jax_transfer_guard_device_to_host == "disallow"
        checkpoints.save(10, state)
    checkpoints.close()
    assert seen == ["allow"]


def test_a_write_that_fails_is_a_sentence_and_the_step_before_stays(tmp_path, monkeypatch):
    saved(tmp_path / "c", [10])
    checkpoints = Checkpoints(tmp_path / "c", 2)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("actlab.training.checkpoint.write_atomically", full)
    checkpoints.save(20, state_at(20))
    with pytest.raises(UserError, match="No space left"):
        checkpoints.close()
    assert restored(tmp_path / "c")[1] == 10


def test_a_write_that_fails_in_the_background_is_told_once(tmp_path, monkeypatch, caplog):
    """By the error, not by a traceback that orbax logs as well."""
    checkpoints = Checkpoints(tmp_path / "c", 2)

    def full(directory, commit_futures, *_, **__):
        for written in commit_futures:
            written.result()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(
        "orbax.checkpoint._src.checkpointers.async_checkpointer._background_wait_for_commit_futures", full
    )
    checkpoints.save(10, state_at(10))
    with pytest.raises(UserError, match="No space left"):
        checkpoints.close()
    assert not [record for record in caplog.records if record.exc_info]
    assert restored(tmp_path / "c")[1] == 0


@pytest.mark.parametrize(
    "harm", ["flipped", "missing", "truncated", "unsealed", b"{", b"{}", b"[]", b"\xff\xfe", b"[" * 10**5]
)
def test_damage_is_noticed_and_the_step_before_is_taken_from_where_it_goes_on(tmp_path, harm):
    saved(tmp_path / "c", [10, 20])
    file, seal = largest_file(tmp_path / "c" / "20" / "default"), tmp_path / "c" / "20" / SEAL
    if harm == "flipped":
        flip_a_bit(file)
    elif harm == "truncated":
        file.write_bytes(file.read_bytes()[:-1])
    elif isinstance(harm, str):
        (file if harm == "missing" else seal).unlink()
    else:
        seal.write_bytes(harm)
    checkpoints = Checkpoints(tmp_path / "c", 2)
    state, step, (note,) = checkpoints.restore_latest(ABSTRACT)
    assert step == 10 and "20" in note and ("not sealed" if harm == "unsealed" else "damaged") in note
    jax.tree.map(np.testing.assert_array_equal, state, state_at(10))
    assert (tmp_path / "set_aside" / "c-20").is_dir()
    checkpoints.save(20, state_at(20))
    checkpoints.close()
    assert restored(tmp_path / "c")[1] == 20


@pytest.mark.parametrize("step", [10, 20])
def test_a_device_in_the_place_of_a_file_is_set_aside_before_orbax_reads_it_for_ever(tmp_path, step):
    saved(tmp_path / "c", [10, 20])
    (tmp_path / "c" / str(step) / "_CHECKPOINT_METADATA").unlink()
    (tmp_path / "c" / str(step) / "_CHECKPOINT_METADATA").symlink_to("/dev/zero")
    assert restored(tmp_path / "c", read_only=True)[1] == (20 if step == 10 else 10)
    checkpoints = Checkpoints(tmp_path / "c", 2)
    _, newest, (note,) = checkpoints.restore_latest(ABSTRACT)
    assert newest == (20 if step == 10 else 10) and f"checkpoint {step} is damaged" in note
    assert (tmp_path / "set_aside" / f"c-{step}").is_dir()
    checkpoints.save(30, state_at(30))
    checkpoints.close()
    assert restored(tmp_path / "c")[1] == 30


def test_the_leftover_of_a_save_beside_a_damaged_step_is_cleared_away(tmp_path):
    for _ in range(5):
        saved(tmp_path / "c", [10, 20])
        leftover = tmp_path / "c" / "30.orbax-checkpoint-tmp"
        for number in range(50):
            (leftover / f"default/{number}").mkdir(parents=True)
            (leftover / f"default/{number}/data").write_text("half")
        flip_a_bit(largest_file(tmp_path / "c" / "20" / "default"))
        assert restored(tmp_path / "c")[1] == 10 and not leftover.exists()
        shutil.rmtree(tmp_path / "c")


def test_a_step_whose_tables_differ_is_passed_over_with_the_reason(tmp_path):
    checkpoints = Checkpoints(tmp_path / "c", 2, about="these runs")
    for step in (10, 20):
        checkpoints.save(step, state_at(step), {"metrics.jsonl": [step, "digest"]})
    checkpoints.close()

    def differing(step, tables):
        assert tables == {"metrics.jsonl": [step, "digest"]}
        return "is not used: rows are lost" if step == 20 else None

    checkpoints = Checkpoints(tmp_path / "c", 2, about="these runs")
    assert checkpoints.restore_latest(ABSTRACT, differing)[1:] == (10, ["checkpoint 20 is not used: rows are lost"])
    checkpoints.close()
    with pytest.raises(UserError, match="another config or on other data"):
        Checkpoints(tmp_path / "c", 2, about="others").restore_latest(ABSTRACT)


def test_a_seal_says_which_step_it_is_of(tmp_path):
    saved(tmp_path / "c", [10, 20])
    shutil.rmtree(tmp_path / "c" / "20")
    shutil.copytree(tmp_path / "c" / "10", tmp_path / "c" / "20")
    assert restored(tmp_path / "c")[1] == 10


def test_reading_only_passes_over_damage_and_moves_nothing(tmp_path):
    saved(tmp_path / "c", [10, 20])
    flip_a_bit(largest_file(tmp_path / "c" / "20" / "default"))
    assert restored(tmp_path / "c", read_only=True)[1] == 10
    assert present(tmp_path / "c") == [10, 20] and not (tmp_path / "set_aside").exists()


@pytest.mark.parametrize("looked_at", ["_problem", "_require_same_arrays"])
def test_a_step_that_training_deletes_while_it_is_read_is_no_error(tmp_path, monkeypatch, looked_at):
    saved(tmp_path / "c", [10, 20])
    saved(tmp_path / "later", [30])
    look = getattr(Checkpoints, looked_at)

    def looking(self, step, *rest):
        if step == 20:
            for old in (10, 20):
                shutil.rmtree(tmp_path / "c" / str(old))
            (tmp_path / "later" / "30").rename(tmp_path / "c" / "30")
        return look(self, step, *rest)

    monkeypatch.setattr(Checkpoints, looked_at, looking)
    state, step, notes = restored(tmp_path / "c", read_only=True)
    assert (step, notes) == (30, [])
    jax.tree.map(np.testing.assert_array_equal, state, state_at(30))


@pytest.mark.parametrize("other", [state_at(0, (3, 5)), state_at(0, dtype=jnp.bfloat16), {"step": jnp.int32(0)}])
def test_arrays_of_another_model_are_refused_not_cast(tmp_path, other):
    saved(tmp_path / "c", [10])
    checkpoints = Checkpoints(tmp_path / "c", 2)
    with pytest.raises(UserError, match="params/"):
        checkpoints.restore_latest(jax.eval_shape(lambda: other))


def test_saving_a_step_twice_is_an_error_not_a_silent_no(tmp_path):
    checkpoints = Checkpoints(tmp_path / "c", 2)
    checkpoints.save(10, state_at(10))
    with pytest.raises(RuntimeError, match="refused"):
        checkpoints.save(10, state_at(10))
    checkpoints.close()
