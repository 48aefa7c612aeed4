"""What answers' bits depend on, and where two runs differ in it."""

from typing import Any

import pytest

from personaplex.compare.identity import IdentityCount, identity_differences, identity_summary
from personaplex.compare.ladder import compare_runs
from personaplex.compare.verdicts import IdentityDifference, Level, Recorded, Tolerances


@pytest.mark.parametrize(
    ("changes", "name", "got"),
    [
        ({"model": {"weights_sha256": "x"}}, "model.weights_sha256", "x"),
        ({"model": {"tokenizer_sha256": "x"}}, "model.tokenizer_sha256", "x"),
        ({"prompt": {"voice_sha256": "x"}}, "prompt.voice_sha256", "x"),
        ({"prompt": {"text": "x"}}, "prompt.text", "x"),
        ({"input": {"sha256": "x"}}, "input.sha256", "x"),
        ({"input": {"channel": "left"}}, "input.channel", "left"),
        ({"input": {"part": {"offset": 1}}}, "input.part", {"offset": 1}),
        ({"sampling": {"seed": 8}}, "sampling.seed", 8),
        ({"engine": {"device_kind": "AVX512"}}, "engine.device_kind", "AVX512"),
        ({"engine": {"threads": None}}, "engine.threads", None),
        ({"engine": {"slots": 8}}, "engine.slots", 8),
        ({"engine": {"pace": "realtime"}}, "engine.pace", "realtime"),
        ({"engine": {"gpu": {"cudnn": 91002}}}, "engine.gpu.cudnn", 91002),
        ({"output": {"align": "model"}}, "output.align", "model"),
        ({"output": {"subtype": "FLOAT"}}, "output.subtype", "FLOAT"),
        ({"output": {"sample_rate": 8000}}, "output.sample_rate", 8000),
    ],
)
def test_what_bits_depend_on_is_named(changes: dict[str, Any], name: str, got: Any, document: Any) -> None:
    (difference,) = identity_differences(document(), document(**changes))
    assert (difference.name, difference.got) == (name, got)


def test_names_paths_and_revisions_do_not_matter(document: Any) -> None:
    other = document(
        model={"name": "b", "revision": "two"}, input={"path": "b"}, output={"path": "b"}, prompt={"voice": "b"}
    )
    assert identity_differences(document(), other) == ()


def test_other_weights_are_named(document: Any) -> None:
    other = document(model={"weights_sha256": "x", "revision": "two"})
    names = [difference.name for difference in identity_differences(document(), other)]
    assert names == ["model.revision", "model.weights_sha256"]


def test_a_key_of_one_side_alone_is_none_on_the_other(document: Any) -> None:
    old, new = document(), document(sampling={"top_p_text": 1.0}, engine={"versions": {"python": "3.11.7"}})
    assert set(identity_differences(old, new)) == {
        IdentityDifference("sampling.top_p_text", None, 1.0),
        IdentityDifference("engine.versions.torch", "2.13.0", None),
    }


def test_a_summary_counts_items_and_tells_values_they_share(document: Any) -> None:
    ours = {name: Recorded(name, document(sampling={"seed": seed})) for seed, name in enumerate("abc")}
    theirs = {
        "a": Recorded("a", document(sampling={"seed": 9}, engine={"threads": 4})),
        "b": Recorded("b", document(sampling={"seed": 8}, engine={"threads": 4})),
        "c": Recorded("c", document(sampling={"seed": 2}, engine={"threads": 4})),
        "d": Recorded("d", document(engine={"threads": 8})),
    }
    comparison = compare_runs(ours, theirs, ("A", "B"), Level.tokens, Tolerances())
    assert identity_summary(comparison) == [
        IdentityCount("engine.threads", 2, 4, 3),
        IdentityCount("sampling.seed", None, None, 2),
    ]


@pytest.mark.parametrize(
    ("rounding", "named"),
    [
        (("a1", "a1"), set()),
        (("a1", "b2"), {"engine.device_kind", "engine.rounding"}),
        ((None, None), {"engine.device_kind"}),  # as older transcripts have it
        ((None, "b2"), {"engine.device_kind", "engine.rounding"}),
    ],
)
def test_processors_that_round_alike_are_one(
    rounding: tuple[str | None, str | None], named: set[str], document: Any
) -> None:
    kinds = zip(("Xeon, AVX512", "EPYC, AVX512"), rounding, strict=True)
    ours, theirs = (document(engine={"device_kind": kind, "rounding": found}) for kind, found in kinds)
    assert {difference.name for difference in identity_differences(ours, theirs)} == named
