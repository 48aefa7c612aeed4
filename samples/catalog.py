"""Where the samples lie: the callers' recordings, their manifest and the models that come with the package."""

from pathlib import Path

from personaplex.core.errors import ModelError
from personaplex.core.weights.published import CONFIG

_FOLDER = Path(__file__).parent


def manifest_path() -> Path:
    """The JSONL manifest of all sample calls; paths in it are relative to its folder."""
    return _FOLDER / "manifest.jsonl"


def call_paths() -> list[Path]:
    """The callers' recordings, sorted."""
    return sorted((_FOLDER / "calls").iterdir())


def voice_folders() -> list[Path]:
    """The folders of the voices that come with the package, for any model and with packaged models."""
    return [_FOLDER / "voices", *sorted((_FOLDER / "models").glob("*/voices"))]


def model_names() -> list[str]:
    """Names of the models that come with the package, sorted."""
    return sorted(path.name for path in (_FOLDER / "models").iterdir() if path.is_dir())


def model_folder(name: str) -> Path:
    """The folder of the packaged model `name`; a `ModelError` lists the known ones."""
    known = model_names()
    if name not in known:
        raise ModelError(f'no packaged model is called "{name}"', f"packaged models: {', '.join(known)}")
    return _FOLDER / "models" / name


def placed(name: str) -> str:
    """Where a model is found: in its folder if it is packaged with its weights, else by its name."""
    return str(model_folder(name)) if name in model_names() and (model_folder(name) / CONFIG).is_file() else name
