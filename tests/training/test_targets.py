"""Devices that are not here: what a flag names, what a compiled program's text says, the bound on a time."""

import dataclasses

import pytest

from actlab.errors import UserError
from actlab.training import targets
from actlab.training.targets import Facts

HERE = targets.Target("here", "cpu", 2**33, 1e10, {"float32": 1e11}, {1: "1"})
FACTS = Facts(1.0, 100, 30, 20, 5, None, None, {}, ())


def test_a_flag_names_a_target_and_a_number_of_devices():
    target = targets.parse("v5e:8")
    assert (target.name, target.number, target.layouts[8]) == ("v5e", 8, "v5e:2x4")
    assert targets.parse("h100").number == 1
    for text, words in (("h10", "did you mean 'h100'"), ("v4:3", "1, 4, 8, 16 devices"), ("", "unknown --target")):
        with pytest.raises(UserError, match=words):
            targets.parse(text)


def test_collectives_are_read_from_text_with_the_bytes_of_their_results():
    text = """
  %a = f32[4,1,8]{2,1,0:T(8,128)} all-gather(f32[1,1,8]{2,1,0} %x), replica_groups={}
  %b = (bf16[16]{0}, /*index=1*/f32[2,3]{1,0}) all-reduce-start(bf16[16]{0} %y, f32[2,3]{1,0} %z), to_apply=%add
  %c = (f32[2]{0}, f32[8]{0}) all-gather-start(f32[2]{0} %w), dimensions={0}
  %d = f32[8]{0} all-gather-done((f32[2]{0}, f32[8]{0}) %c)
  %e = pred[] all-reduce(pred[] %p), channel_id=7, to_apply=%or
  %f = pred[] all-reduce(pred[] %p), channel_id=7, to_apply=%or
"""
    assert targets.collectives(text) == (("all-gather", 2, 128 + 32), ("all-reduce", 2, 32 + 24 + 1))


def test_the_bound_is_the_slower_of_products_and_memory():
    assert HERE.roofline("float32", 1e11, FACTS) == 1
    assert HERE.roofline("float32", 0.0, FACTS) == pytest.approx((100 + 20 + 2 * 30) / 1e10)
    assert HERE.roofline("float32", 0.0, dataclasses.replace(FACTS, accessed=1e10)) == 1
    assert FACTS.memory == 155
    for target in targets.TARGETS.values():
        assert target.flops["bfloat16"] > target.flops["tensorfloat32"] > target.flops["float32"] > target.bandwidth
        assert 2**33 < target.usable <= target.memory


def test_a_compiler_that_is_not_installed_is_a_sentence(monkeypatch):
    monkeypatch.setattr(targets.importlib.util, "find_spec", lambda name: None)
    for name, extra in (("h100", "cuda"), ("v5e", "tpu")):
        with pytest.raises(UserError, match=rf"no compiler for {name} is installed: pip install .*\[{extra}\]"):
            targets.TARGETS[name].devices()
