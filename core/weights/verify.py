"""Whether a model's files are whole and its own: present, of the content that their hash names, of the right shapes.

Every byte is read once, for its hash. Of the weights nothing is kept; they are looked at for stretches of zeros.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from personaplex.core.config import CODEBOOKS, PERSONAPLEX_7B, LMConfig, ModelConfig
from personaplex.core.errors import ModelError
from personaplex.core.lm.tokenizer import Tokenizer
from personaplex.core.weights.cached import snapshot
from personaplex.core.weights.checkpoint import Checkpoint, open_checkpoint
from personaplex.core.weights.filling import current_name, depth_steps, in_int8, misfits, with_depth_steps
from personaplex.core.weights.layout import Layout, lm_layout, mimi_layout
from personaplex.core.weights.published import CONFIG, FILES, VOICES, folder_config, has_voices, is_directory, lm_file
from personaplex.core.weights.shards import shard_names
from personaplex.core.weights.zeros import refuse_zeros

_FOREIGN = "is it the file of this model? fetch or copy it again, or use the config.json that came with it"


@dataclass(frozen=True)
class CheckedFile:
    """A file's hash and what it holds; if it is not as it should be, what is wrong and the mend."""

    path: Path
    sha256: str = ""
    holds: str = ""
    problem: str = ""
    mend: str = ""


@dataclass(frozen=True)
class _Place:
    """A model's folder: in the hub's cache, of the repository `repo`, or the user's own."""

    folder: Path
    repo: str | None

    @property
    def again(self) -> str:
        """How to have a file again."""
        if self.repo is None:
            return f"copy the file to {self.folder} again from where the model came from"
        return f"run `personaplex models fetch {self.repo}`"


def verify(name: str, revision: str | None = None) -> Iterator[CheckedFile]:
    """Check a model directory, or a repository's files in the hub's cache, one after the other; asks no network.

    Raises ModelError for a model that is not on this machine, UsageError for the revision of a directory.
    """
    place = _place(name, revision)
    config = _config(place)
    if isinstance(config, CheckedFile):
        yield config
        return
    files = config.files
    yield from _language_model(place, config)

    def codec(path: Path) -> str:
        return _tensors(path, mimi_layout(config.mimi))

    def tokenizer(path: Path) -> str:
        return _pieces(path, config.lm.text_vocab)

    yield _checked(place, place.folder / files.mimi, codec)
    yield _checked(place, place.folder / files.tokenizer, tokenizer)
    voices = place.folder / VOICES
    if has_voices(place.repo) or voices.is_file():
        yield _checked(place, voices, lambda _: "the archive of voices")


def _place(name: str, revision: str | None) -> _Place:
    if is_directory(name, revision):
        return _Place(Path(name), None)
    folder = snapshot(name, revision)
    if folder is None:
        at, pin = (f" at revision {revision}", f" --revision {revision}") if revision else ("", "")
        raise ModelError(f"{name}{at} is not on this machine", f"run `personaplex models fetch {name}{pin}`")
    return _Place(folder, name)


def _config(place: _Place) -> ModelConfig | CheckedFile:
    """The shapes of the published model where its files lie, else those that config.json gives."""
    try:
        return PERSONAPLEX_7B if place.repo else folder_config(place.folder)
    except ModelError as error:
        return _wrong(place.folder / CONFIG, error)


def _language_model(place: _Place, config: ModelConfig) -> Iterator[CheckedFile]:
    """The checkpoint, or the index of its shards and each of them."""
    path = lm_file(place.folder, config)
    shards: list[Path] = []
    if path.name.endswith(".index.json") and path.is_file():
        try:
            shards = [place.folder / name for name in shard_names(path)]
        except ModelError as error:
            yield _wrong(path, error)
            return
    parts = [_checked(place, shard, lambda part: _whole(open_checkpoint(part), part)) for shard in shards]
    yield from parts

    def whole(path: Path) -> str:
        if any(part.problem for part in parts):
            return "an index; its tensors were not compared, since a shard is not whole"
        return _tensors(path, lm_layout(_stored(config.lm, path) if config.files == FILES else config.lm))

    yield _checked(place, path, whole)


def _stored(config: LMConfig, path: Path) -> LMConfig:
    """With as many depth steps as the checkpoint of the published model, or of its forebears, holds."""
    return with_depth_steps(config, CODEBOOKS if depth_steps(path) <= CODEBOOKS else 2 * CODEBOOKS)


def _tensors(path: Path, layout: Layout) -> str:
    checkpoint = {current_name(name): tensor for name, tensor in open_checkpoint(path).items()}
    problems = misfits(layout, checkpoint)
    if problems:
        raise ModelError(f"{path}: {problems}", _FOREIGN)
    if path.name.endswith(".index.json"):  # whose shards were looked at one by one
        return f"{len(checkpoint)} tensors"
    return _whole(checkpoint, path)


def _whole(checkpoint: Checkpoint, path: Path) -> str:
    for name, tensor in checkpoint.items():
        if tensor.largest is None:
            refuse_zeros(name, tensor.read(None), path)
        else:
            in_int8(name, tensor, path)
    return f"{len(checkpoint)} tensors"


def _pieces(path: Path, vocabulary: int) -> str:
    size = Tokenizer(path).vocab_size
    if size != vocabulary:
        what = f"{path}: has {size} pieces, the model {vocabulary} text tokens"
        raise ModelError(what, "use the tokenizer that came with the model")
    return f"{size} pieces"


def _checked(place: _Place, path: Path, look: Callable[[Path], str]) -> CheckedFile:
    """A file whose content `look` describes, or raises ModelError for."""
    if not path.is_file():
        return CheckedFile(path, problem="is missing", mend=place.again)
    digest = ""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        blob = path.resolve()
        if place.repo and re.fullmatch(r"[0-9a-f]{64}", blob.name) and blob.name != digest:
            mend = f"delete {blob}, then {place.again}"
            return CheckedFile(path, digest, problem="its content is not what its SHA-256 promises", mend=mend)
        return CheckedFile(path, digest, look(path))
    except OSError as error:
        return CheckedFile(path, digest, problem=f"can't be read: {error.strerror}", mend=place.again)
    except ModelError as error:
        return replace(_wrong(path, error), sha256=digest)


def _wrong(path: Path, error: ModelError) -> CheckedFile:
    return CheckedFile(path, problem=error.what.removeprefix(f"{path}: "), mend=error.mend)
