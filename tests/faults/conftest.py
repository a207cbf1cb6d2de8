"""Workdirs to damage."""

import pytest

from actlab.sweeps import session


def run(config, workdir):
    return session.run(config, "sweep", workdir, ["test"])


@pytest.fixture(scope="session")
def workdirs(small_sweep, tmp_path_factory):
    """A finished sweep, and one stopped in its second program, at a step between two checkpoints."""
    folder = tmp_path_factory.mktemp("whole")
    assert run(small_sweep, folder / "finished") == 0
    with pytest.MonkeyPatch.context() as patch:
        whole = session.Session._train

        def train(self, part, *rest):
            calls = iter(range(100))

            def asked(self):
                self.received = 15 if part == "1" and next(calls) >= 3 else None
                return self.received is not None

            patch.setattr(session.StopSignal, "__call__", asked)
            return whole(self, part, *rest)

        patch.setattr(session.Session, "_train", train)
        assert run(small_sweep, folder / "half") == 143
    return folder
