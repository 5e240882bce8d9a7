from __future__ import annotations

from pathlib import Path

from manyglot.batches.finished_steps import StepRecord


def test_a_step_is_finished_while_its_record_inputs_and_files_are_intact(tmp_path: Path) -> None:
    step = StepRecord(tmp_path / "steps" / "one.json", tmp_path, ["a", "b"], {"seed": 1})
    (tmp_path / "a").write_bytes(b"some")
    (tmp_path / "b").write_bytes(b"other")
    assert not step.is_finished()
    step.write({"count": 3})
    assert step.is_finished()
    assert step.read_result() == {"count": 3}
    assert not StepRecord(step.path, tmp_path, ["a", "b"], {"seed": 2}).is_finished()
    assert not StepRecord(step.path, tmp_path, ["a", "b", "c"], {"seed": 1}).is_finished()
    for path in (tmp_path / "a", tmp_path / "b", step.path):
        intact = path.read_bytes()
        for damaged in (b"", intact[:-2], bytes(len(intact)), intact.replace(b"3", b"4").replace(b"o", b"0")):
            path.write_bytes(damaged)
            assert not step.is_finished(), (path, damaged)
        path.unlink()
        assert not step.is_finished()
        path.write_bytes(intact)
        assert step.is_finished()
