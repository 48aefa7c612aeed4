import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from personaplex.core.config import DELAYS, PERSONAPLEX_7B, ModelConfig, QuantizedConfig, read_config
from personaplex.core.errors import ModelError

Fields = dict[str, Any]


def fields() -> Fields:
    """The 7B's, as a config.json holds them."""
    config: Fields = json.loads(json.dumps(asdict(PERSONAPLEX_7B)))
    del config["quantized"]  # which may be missing
    return config


def holder(config: Fields, path: str) -> tuple[Fields, str]:
    """The object that holds the field at a dotted path, and the field's own name."""
    *parents, name = path.split(".")
    for parent in parents:
        config = config[parent]
    return config, name


def every_path(config: Fields, above: str = "") -> list[str]:
    paths = []
    for name, value in config.items():
        paths.append(above + name)
        if isinstance(value, dict):
            paths += every_path(value, f"{above}{name}.")
    return paths


PATHS = every_path(fields())
INTEGERS = [path for path in PATHS if isinstance(holder(fields(), path)[0][path.rpartition(".")[2]], int)]


@pytest.fixture
def read(tmp_path: Path) -> Callable[[Fields], ModelConfig]:
    def write_and_read(config: Fields) -> ModelConfig:
        path = tmp_path / "config.json"
        path.write_text(json.dumps(config))
        return read_config(path)

    return write_and_read


Read = Callable[[Fields], ModelConfig]


def assert_refused(read: Read, config: Fields, *words: str) -> None:
    with pytest.raises(ModelError) as raised:
        read(config)
    assert "config.json: " in raised.value.what
    assert raised.value.mend
    for word in words:
        assert word in raised.value.what


def test_the_7b_comes_back(read: Read) -> None:
    assert read(fields()) == PERSONAPLEX_7B


QUANTIZED = {"type": "int8", "name": "a", "revision": "b", "weights_sha256": "c", "tokenizer_sha256": "d"}


def test_a_quantised_one(read: Read) -> None:
    found = read(fields() | {"quantized": QUANTIZED})
    assert found.quantized == QuantizedConfig(**QUANTIZED)  # type: ignore[arg-type]
    assert read(fields() | {"quantized": None}) == PERSONAPLEX_7B
    for name in QUANTIZED:
        assert_refused(read, fields() | {"quantized": QUANTIZED | {name: 8}}, f"quantized.{name}: ")
    assert_refused(read, fields() | {"quantized": QUANTIZED | {"type": "int4"}}, "quantized.type: ")


def test_the_7b() -> None:
    lm, mimi = PERSONAPLEX_7B.lm, PERSONAPLEX_7B.mimi
    assert (lm.dim, lm.num_layers, lm.num_heads, lm.head_dim, lm.feedforward) == (4096, 32, 32, 128, 11_264)
    assert (lm.context, lm.window) == (3000, 2999)
    assert (lm.text_vocab, lm.audio_vocab, lm.streams) == (32_000, 2048, 17)
    assert tuple(lm.delays) == DELAYS == (0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1)
    depth = lm.depth
    assert (depth.dim, depth.num_layers, depth.num_heads, depth.feedforward) == (1024, 6, 16, 2816)
    assert (mimi.filters, mimi.dim, mimi.ratios, mimi.codebook_dim) == (64, 512, [8, 6, 5, 4], 256)
    shape = mimi.transformer
    assert (shape.num_layers, shape.num_heads, shape.feedforward, shape.context) == (8, 8, 2048, 250)
    assert PERSONAPLEX_7B.silence_codes == [948, 243, 1178, 546, 1736, 1030, 1978, 2008]
    assert PERSONAPLEX_7B.sine_codes == [430, 1268, 381, 1611, 1095, 1495, 56, 472]


@pytest.mark.parametrize("path", PATHS)
def test_missing_field(read: Read, path: str) -> None:
    config = fields()
    place, name = holder(config, path)
    del place[name]
    assert_refused(read, config, f"{path}: ")


@pytest.mark.parametrize("parent", ["", "lm.", "lm.depth.", "mimi.", "mimi.transformer.", "files."])
def test_unknown_field(read: Read, parent: str) -> None:
    config = fields()
    place, _ = holder(config, f"{parent}extra")
    place["extra"] = 1
    assert_refused(read, config, f"{parent}extra: ")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("value", [None, True, [None], "64", 64.0])
def test_wrong_type(read: Read, path: str, value: object) -> None:
    config = fields()
    place, name = holder(config, path)
    place[name] = 7 if isinstance(place[name], str) and isinstance(value, str) else value
    assert_refused(read, config, path)


def test_all_unfit_fields_are_named_at_once(read: Read) -> None:
    config = fields()
    del config["lm"]["dim"]
    config["mimi"]["filters"] = "64"
    assert_refused(read, config, "lm.dim: ", "mimi.filters: ")


@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        ("model_type", "moshi", 'model_type is "moshi"'),
        ("lm.streams", 9, "streams"),
        ("lm.delays", [0] * 17, "delays"),
        ("lm.delays", list(DELAYS[:-1]), "delays"),
        ("lm.depth.codebooks", 9, "lm.depth.codebooks is 9"),
        ("lm.depth.codebooks", 0, "lm.depth.codebooks is 0"),
        ("lm.num_heads", 3, "lm: 3 heads"),
        ("lm.num_heads", 4096, "lm: 4096 heads"),
        ("lm.depth.num_heads", 5, "lm.depth: 5 heads"),
        ("mimi.transformer.num_heads", 7, "mimi: 7 heads"),
        ("lm.context", 2, "context"),
        ("mimi.transformer.context", 3, "context"),
        ("mimi.transformer.context", 10_001, "context"),
        ("lm.audio_vocab", 1024, "lm.audio_vocab"),
        ("mimi.codebook_size", 1024, "codebooks"),
        ("mimi.codebooks", 16, "codebooks"),
        ("mimi.ratios", [8, 6, 5], "ratios"),
        ("mimi.ratios", [], "ratios"),
        ("mimi.ratios", [-8, -6, 5, 4], "ratios"),
        ("mimi.filters", 1, "filters"),
        ("lm.text_vocab", 3, "text_vocab"),
        ("silence_codes", [0] * 7, "silence_codes"),
        ("silence_codes", [0] * 7 + [2048], "silence_codes"),
        ("sine_codes", [0] * 9, "sine_codes"),
        ("sine_codes", [-1] + [0] * 7, "sine_codes"),
        ("files.lm", "../model.safetensors", "files"),
        ("files.mimi", "/etc/passwd", "files"),
        ("files.tokenizer", "sub/tokenizer.model", "files"),
    ],
)
def test_impossible_value(read: Read, path: str, value: object, word: str) -> None:
    config = fields()
    place, name = holder(config, path)
    place[name] = value
    assert_refused(read, config, word)


@pytest.mark.parametrize("path", INTEGERS)
@pytest.mark.parametrize("value", [0, -1])
def test_sizes_are_positive(read: Read, path: str, value: int) -> None:
    config = fields()
    place, name = holder(config, path)
    place[name] = value
    assert_refused(read, config, f"{path} is {value}")


@pytest.mark.parametrize("steps", [8, 16])
def test_8_and_16_depth_steps(read: Read, steps: int) -> None:
    config = fields()
    config["lm"]["depth"]["codebooks"] = steps
    assert read(config).lm.depth.codebooks == steps


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe{}", b'{"lm": ' * 5000])
def test_not_json(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=r"config.json: ") as raised:
        read_config(path)
    assert raised.value.mend


def test_no_file(tmp_path: Path) -> None:
    for path in (tmp_path / "config.json", tmp_path):
        with pytest.raises(ModelError, match=str(path)):
            read_config(path)
