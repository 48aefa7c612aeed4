"""What of a hub's model is on this machine, told from the cache alone: the hub is never asked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from huggingface_hub import constants
from huggingface_hub.file_download import repo_folder_name

from personaplex.core.config import PERSONAPLEX_7B
from personaplex.core.errors import ModelError
from personaplex.core.weights.published import FILES, INDEX, lm_file
from personaplex.core.weights.shards import shard_names

Presence = Literal["here", "incomplete", "absent"]


@dataclass(frozen=True)
class CachedModel:
    """A repository's folder in the cache, None if there is none, and whether all that a model needs is in it."""

    presence: Presence
    folder: Path | None


def snapshot(repo: str, revision: str | None = None) -> Path | None:
    """The cached folder of a commit, tag or branch; for None that of `main`, or else the one that was made last."""
    cache = Path(constants.HF_HUB_CACHE, repo_folder_name(repo_id=repo, repo_type="model"))
    reference = cache / "refs" / (revision or "main")
    if reference.is_file():
        found = cache / "snapshots" / reference.read_text(encoding="utf-8").strip()
        return found if found.is_dir() else None
    if revision is not None:
        found = cache / "snapshots" / revision
        return found if found.is_dir() else None
    folders = (path for path in cache.glob("snapshots/*") if path.is_dir())
    return max(folders, key=lambda path: path.stat().st_mtime, default=None)


def cached_model(repo: str) -> CachedModel:
    """Whether the weights, all shards of them, the codec and the tokenizer of a repository are in the cache."""
    folder = snapshot(repo)
    if folder is None:
        return CachedModel("absent", None)
    lm = lm_file(folder, PERSONAPLEX_7B)
    try:
        weights = shard_names(lm) if lm.name == INDEX else [lm.name]
    except ModelError:
        return CachedModel("incomplete", folder)
    whole = all((folder / name).is_file() for name in (*weights, FILES.mimi, FILES.tokenizer))
    return CachedModel("here" if whole else "incomplete", folder)
