from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from personaplex.core.config import (
    PERSONAPLEX_7B,
    DepthConfig,
    LMConfig,
    MimiConfig,
    MimiTransformerConfig,
)
from personaplex.core.errors import ModelError
from personaplex.core.nn.int8 import quantised
from personaplex.core.weights.checkpoint import open_checkpoint
from personaplex.core.weights.filling import depth_steps, load_lm, load_mimi, with_depth_steps
from personaplex.core.weights.layout import Layout, lm_layout, mimi_layout

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


CPU = torch.device("cpu")
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
FLAGSHIP = PERSONAPLEX_7B.lm
TINY_LM = replace(
    FLAGSHIP, dim=8, num_heads=2, num_layers=2, feedforward=6, context=8, text_vocab=5, audio_vocab=4,
    depth=DepthConfig(dim=4, num_heads=2, num_layers=2, feedforward=3, codebooks=16),
)  # fmt: skip
TINY_MIMI = MimiConfig(
    filters=2, dim=4, ratios=[8, 6, 5, 4], codebook_dim=2, codebook_size=4, codebooks=8,
    transformer=MimiTransformerConfig(num_heads=1, num_layers=2, feedforward=3, context=6),
)  # fmt: skip

Tensors = dict[str, Tensor]


def tensors_of(layout: Layout) -> Tensors:
    """Every tensor of a layout, each value unlike all others in it."""
    generator = torch.Generator().manual_seed(0)
    return {name: torch.rand(place.shape, generator=generator) for name, place in layout.items()}


LM_TENSORS = tensors_of(lm_layout(TINY_LM))
MIMI_TENSORS = tensors_of(mimi_layout(TINY_MIMI))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def refused(path: Path, config: LMConfig | MimiConfig = TINY_LM) -> str:
    """What the error says that loading the checkpoint raises; it names the file and has a mend."""
    with pytest.raises(ModelError) as raised:
        load_lm(path, config, CPU, F32) if isinstance(config, LMConfig) else load_mimi(path, config, CPU)
    assert path.name in raised.value.what
    assert raised.value.mend
    return raised.value.what


class TestValues:
    """Where single tensors end up."""

    def test_language_model(self, path: Path) -> None:
        save_file(LM_TENSORS, path)
        lm = load_lm(path, TINY_LM, CPU, None)
        assert torch.equal(lm.emb[11], LM_TENSORS["emb.11.weight"])
        assert torch.equal(lm.temporal.layers[1].linear_in, LM_TENSORS["transformer.layers.1.gating.linear_in.weight"])
        layer = lm.depth.layers[1]
        packed = LM_TENSORS["depformer.layers.1.self_attn.in_proj_weight"]
        assert torch.equal(layer.in_proj[7], packed[7 * 12 : 8 * 12])
        assert torch.equal(layer.linear_out[3], LM_TENSORS["depformer.layers.1.gating.3.linear_out.weight"])
        assert torch.equal(lm.depth.emb[6], LM_TENSORS["depformer_emb.6.weight"])

    def test_ready_for_inference(self, path: Path) -> None:
        save_file(LM_TENSORS, path)
        lm = load_lm(path, TINY_LM, CPU, None)
        assert not lm.training
        assert not any(parameter.requires_grad for parameter in lm.parameters())
        assert not any(parameter.is_meta for parameter in lm.parameters())

    def test_codec(self, path: Path) -> None:
        save_file(MIMI_TENSORS, path)
        mimi = load_mimi(path, TINY_MIMI, CPU)
        name = "quantizer.rvq_rest.vq.layers.6._codebook.embedding_sum"
        assert torch.equal(mimi.quantizer.rest.embedding_sum[6], MIMI_TENSORS[name])
        assert torch.equal(mimi.encoder.stages[0].down.weight, MIMI_TENSORS["encoder.model.3.conv.conv.weight"])
        assert torch.equal(mimi.decoder.stages[3].up.bias, MIMI_TENSORS["decoder.model.11.convtr.convtr.bias"])


def in_int8(tensors: Tensors, names: Iterable[str]) -> Tensors:
    """The tensors with some of them in int8, as Kyutai stores them."""
    changed: Tensors = {}
    for name in names:
        changed[name], changed[f"{name}_scb"] = quantised(tensors[name])
    return tensors | changed


TEMPORAL = [name for name, place in lm_layout(TINY_LM).items() if place.is_quantised]
LINEARS = [  # what Kyutai quantises
    name for name, tensor in LM_TENSORS.items() if tensor.dim() == 2 and "emb" not in name
]


class TestInt8:
    """Temporal layers in int8: quantised while they are loaded, or stored so."""

    def test_which_are_quantised(self, path: Path) -> None:
        assert len(TEMPORAL) == 4 * TINY_LM.num_layers
        save_file(LM_TENSORS, path)
        lm = load_lm(path, TINY_LM, CPU, BF16, int8=True)
        held = {name.removesuffix(".weight") for name, part in lm.named_parameters() if part.dtype == torch.int8}
        assert held == {place.target for place in lm_layout(TINY_LM).values() if place.is_quantised}
        assert {part.dtype for name, part in lm.named_parameters() if name.endswith("scale")} == {F32}
        assert lm.dtype == BF16
        assert not any(parameter.requires_grad or parameter.is_meta for parameter in lm.parameters())

    @pytest.mark.parametrize("names", [TEMPORAL, LINEARS], ids=["ours", "Kyutai's"])
    @pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
    def test_stored_and_quantised_while_loading_are_the_same(
        self, tmp_path: Path, names: list[str], suffix: str
    ) -> None:
        path, plain = tmp_path / f"model{suffix}", tmp_path / "plain.safetensors"
        tensors = {name: tensor.bfloat16() for name, tensor in LM_TENSORS.items()}
        stored = in_int8(tensors, names)
        save_file(tensors, plain)
        save_file(stored, path) if suffix == ".safetensors" else torch.save(stored, path)
        found, expected = load_lm(path, TINY_LM, CPU, None), load_lm(plain, TINY_LM, CPU, None, int8=True)
        assert found.dtype == expected.dtype == BF16
        for name, parameter in expected.named_parameters():
            same = found.get_parameter(name)
            if name.startswith("temporal") or names is TEMPORAL:
                assert torch.equal(same, parameter), name
            else:
                torch.testing.assert_close(same, parameter, rtol=0.02, atol=0.01)

    def test_shards_may_part_a_weight_from_its_scales(self, tmp_path: Path) -> None:
        stored = in_int8(LM_TENSORS, TEMPORAL)
        places = {name: f"{'scales' if name.endswith('_scb') else 'weights'}.safetensors" for name in stored}
        for file in set(places.values()):
            save_file({name: tensor for name, tensor in stored.items() if places[name] == file}, tmp_path / file)
        index = tmp_path / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": places}))
        assert load_lm(index, TINY_LM, CPU, None).temporal.is_int8

    @pytest.mark.parametrize("scales", [None, torch.ones(3), torch.ones(32, dtype=torch.int8)])
    def test_without_scales(self, path: Path, scales: Tensor | None) -> None:
        stored = in_int8(LM_TENSORS, TEMPORAL)
        del stored[f"{TEMPORAL[0]}_scb"]
        save_file(stored if scales is None else stored | {f"{TEMPORAL[0]}_scb": scales}, path)
        assert f"{TEMPORAL[0]} is in int8, but {TEMPORAL[0]}_scb is not [24] numbers" in refused(path)

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_values_that_are_no_numbers(self, path: Path, value: float) -> None:
        broken = LM_TENSORS[TEMPORAL[2]].clone()
        broken[1, 1] = value
        save_file(LM_TENSORS | {TEMPORAL[2]: broken}, path)
        with pytest.raises(ModelError, match="holds values that are no numbers"):
            load_lm(path, TINY_LM, CPU, None, int8=True)


class TestTypes:
    @pytest.mark.parametrize("stored", [F32, F16, BF16])
    @pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
    def test_kept_as_stored_or_converted(self, tmp_path: Path, stored: torch.dtype, suffix: str) -> None:
        path = tmp_path / f"model{suffix}"
        tensors = {name: tensor.to(stored) for name, tensor in LM_TENSORS.items()}
        save_file(tensors, path) if suffix == ".safetensors" else torch.save(tensors, path)
        for asked in (None, F32, BF16):
            lm = load_lm(path, TINY_LM, CPU, asked)
            assert {parameter.dtype for parameter in lm.parameters()} == {lm.dtype} == {asked or stored}
            assert torch.equal(lm.text_emb, tensors["text_emb.weight"].to(asked or stored))

    def test_most_values_decide(self, path: Path) -> None:
        """Values, not tensors: the few large ones outweigh the many small ones."""
        large = {name: tensor.bfloat16() for name, tensor in LM_TENSORS.items() if tensor.numel() >= 40}
        assert len(large) < len(LM_TENSORS) / 2
        save_file(LM_TENSORS | large, path)
        assert load_lm(path, TINY_LM, CPU, None).dtype == BF16

    def test_the_codec_is_always_float32(self, path: Path) -> None:
        save_file({name: tensor.bfloat16() for name, tensor in MIMI_TENSORS.items()}, path)
        assert {parameter.dtype for parameter in load_mimi(path, TINY_MIMI, CPU).parameters()} == {F32}


class TestMisfits:
    def test_missing_tensor(self, path: Path) -> None:
        save_file({name: tensor for name, tensor in LM_TENSORS.items() if name != "emb.4.weight"}, path)
        assert "1 tensors missing: emb.4.weight" in refused(path)

    def test_unexpected_tensor(self, path: Path) -> None:
        save_file(LM_TENSORS | {"emb.16.weight": torch.zeros(5, 8)}, path)
        assert "1 tensors unexpected: emb.16.weight" in refused(path)

    @pytest.mark.parametrize(
        ("name", "shape", "words"),
        [
            ("text_emb.weight", (5, 8), "text_emb.weight is [5, 8], not [6, 8]"),
            ("text_emb.weight", (8, 6), "text_emb.weight is [8, 6], not [6, 8]"),
            ("out_norm.alpha", (8,), "out_norm.alpha is [8], not [1, 1, 8]"),
            (
                "depformer.layers.0.self_attn.in_proj_weight",
                (96, 4),
                "depformer.layers.0.self_attn.in_proj_weight is [96, 4], not [192, 4]",
            ),
        ],
    )
    def test_wrong_shape(self, path: Path, name: str, shape: tuple[int, ...], words: str) -> None:
        save_file(LM_TENSORS | {name: torch.zeros(shape)}, path)
        assert f"1 tensors of the wrong shape: {words}" in refused(path)

    def test_everything_at_once_and_many_names_cut_short(self, path: Path) -> None:
        tensors = {name: tensor for name, tensor in LM_TENSORS.items() if not name.startswith("emb.")}
        save_file(tensors | {"strange": torch.zeros(1), "text_linear.weight": torch.zeros(1, 1)}, path)
        what = refused(path)
        assert "16 tensors missing: emb.0.weight, emb.1.weight, emb.2.weight and 13 more" in what
        assert "1 tensors unexpected: strange" in what
        assert "text_linear.weight is [1, 1], not [5, 8]" in what

    def test_another_number_of_depth_steps(self, path: Path) -> None:
        save_file(LM_TENSORS, path)
        assert "unexpected" in refused(path, with_depth_steps(TINY_LM, 8))
        save_file(tensors_of(lm_layout(with_depth_steps(TINY_LM, 8))), path)
        assert depth_steps(path) == 8
        assert "missing" in refused(path)

    def test_another_model(self, path: Path) -> None:
        save_file(MIMI_TENSORS, path)
        refused(path)


class TestCodebooks:
    def rename(self, tensors: Tensors, names: dict[str, str]) -> Tensors:
        renamed = {}
        for name, tensor in tensors.items():
            head, _, last = name.rpartition(".")
            renamed[f"{head}.{names.get(last, last)}"] = tensor
        return renamed

    @pytest.mark.parametrize("embedding", ["embed_avg", "embed_sum"])
    def test_older_names(self, path: Path, embedding: str) -> None:
        names = {"_initialized": "inited", "cluster_usage": "cluster_size", "embedding_sum": embedding}
        save_file(MIMI_TENSORS, path)
        expected = load_mimi(path, TINY_MIMI, CPU).state_dict()
        old = self.rename(MIMI_TENSORS, names)
        assert sum(name.endswith(embedding) for name in old) == 32
        save_file(old, path)
        found = load_mimi(path, TINY_MIMI, CPU).state_dict()
        assert all(torch.equal(found[name], expected[name]) for name in expected)

    def test_unused_codebooks_and_flags_may_be_left_out(self, path: Path) -> None:
        used = ("rvq_first.vq.layers.0.", *(f"rvq_rest.vq.layers.{n}." for n in range(7)))
        kept = {
            name: tensor
            for name, tensor in MIMI_TENSORS.items()
            if "_codebook" not in name or (any(part in name for part in used) and "_initialized" not in name)
        }
        assert len(MIMI_TENSORS) - len(kept) == 24 * 3 + 8
        save_file(kept, path)
        load_mimi(path, TINY_MIMI, CPU)

    def test_used_codebooks_must_be_there(self, path: Path) -> None:
        name = "quantizer.rvq_rest.vq.layers.6._codebook.cluster_usage"
        save_file({key: tensor for key, tensor in MIMI_TENSORS.items() if key != name}, path)
        assert f"1 tensors missing: {name}" in refused(path, TINY_MIMI)


class TestDamage:
    @pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".bin", ".safetensors.index.json"])
    @pytest.mark.parametrize("data", [b"", b"version https://git-lfs.github.com/spec/v1\n", bytes(64), b"[]", b"{}"])
    def test_foreign_files(self, tmp_path: Path, suffix: str, data: bytes) -> None:
        path = tmp_path / f"model{suffix}"
        path.write_bytes(data)
        refused(path)

    @pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
    @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(share=st.floats(0, 1, exclude_max=True))
    def test_cut_anywhere(self, tmp_path: Path, suffix: str, share: float) -> None:
        path = tmp_path / f"model{suffix}"
        save_file(LM_TENSORS, path) if suffix == ".safetensors" else torch.save(LM_TENSORS, path)
        data = path.read_bytes()
        path.unlink()  # a mapped file must not be cut while it is read
        path.write_bytes(data[: int(share * len(data))])
        refused(path)

    @pytest.mark.parametrize("name", ["model.safetensors", "model.safetensors.index.json", "model.pt", "."])
    def test_missing_file(self, tmp_path: Path, name: str) -> None:
        assert "no such checkpoint file" in refused(tmp_path / name)

    @pytest.mark.parametrize("content", [[1, 2], 3, {"model": 3}, {"emb.0.weight": [1.0]}, torch.zeros(3)])
    def test_pt_without_tensors(self, tmp_path: Path, content: Any) -> None:
        path = tmp_path / "model.pt"
        torch.save(content, path)
        assert "no dictionary of tensors" in refused(path)

    def test_pt_that_would_run_code(self, tmp_path: Path) -> None:
        class Bomb:
            def __reduce__(self) -> tuple[Any, ...]:
                return (shutil.rmtree, (str(tmp_path / "precious"),))

        (tmp_path / "precious").mkdir()
        path = tmp_path / "model.pt"
        torch.save(LM_TENSORS | {"bomb": Bomb()}, path)
        assert "not a checkpoint of plain tensors" in refused(path)
        assert (tmp_path / "precious").is_dir()
        torch.load(path, weights_only=False)  # the bomb is a live one
        assert not (tmp_path / "precious").exists()


class TestShards:
    @pytest.fixture
    def index(self, tmp_path: Path) -> Path:
        """A whole index of two shards, in a folder of its own."""
        folder = tmp_path / "model"
        folder.mkdir()
        parts = [sorted(LM_TENSORS)[n::2] for n in range(2)]
        for n, names in enumerate(parts):
            save_file({name: LM_TENSORS[name] for name in names}, folder / f"{n}.safetensors")
        place = {name: f"{n}.safetensors" for n, names in enumerate(parts) for name in names}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": place}))
        return folder / "model.safetensors.index.json"

    def change(self, index: Path, name: str, shard: str) -> None:
        content = json.loads(index.read_text())
        content["weight_map"][name] = shard
        index.write_text(json.dumps(content))

    def test_whole(self, index: Path) -> None:
        assert open_checkpoint(index).keys() == LM_TENSORS.keys()
        assert torch.equal(load_lm(index, TINY_LM, CPU, None).text_emb, LM_TENSORS["text_emb.weight"])

    @pytest.mark.parametrize("shard", ["../x.safetensors", "sub/x.safetensors", "/etc/x.safetensors", "..", ""])
    def test_a_shard_outside_the_folder(self, index: Path, shard: str) -> None:
        """Even though the file is there, and whole."""
        save_file({"emb.0.weight": LM_TENSORS["emb.0.weight"]}, index.parent.parent / "x.safetensors")
        self.change(index, "emb.0.weight", shard)
        assert repr(shard) in refused(index)

    def test_a_missing_shard(self, index: Path) -> None:
        self.change(index, "emb.0.weight", "2.safetensors")
        assert "the shard 2.safetensors is missing" in refused(index)

    def test_a_damaged_shard(self, index: Path) -> None:
        shard = index.parent / "1.safetensors"
        shard.write_bytes(shard.read_bytes()[:-1])
        with pytest.raises(ModelError, match=r"1\.safetensors: not a whole safetensors file"):
            load_lm(index, TINY_LM, CPU, None)

    def test_a_shard_too_few(self, index: Path) -> None:
        content = json.loads(index.read_text())
        content["weight_map"] = {name: part for name, part in content["weight_map"].items() if part[0] == "0"}
        index.write_text(json.dumps(content))
        assert "tensors missing" in refused(index)

    @pytest.mark.parametrize(
        "content",
        ["", "{}", "[]", '{"weight_map": 3}', '{"weight_map": {"a": ["b"]}}', '{"weight_map": {"a": 7}}', "\xff{"],
    )
    def test_not_an_index(self, index: Path, content: str) -> None:
        index.write_text(content, encoding="latin-1")
        refused(index)
