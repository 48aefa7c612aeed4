"""The index of a checkpoint that comes in shards."""

import json
import re
from pathlib import Path

from personaplex.core.errors import ModelError


def shard_names(index: Path) -> list[str]:
    """The plain file names, sorted, of the shards that a `model.safetensors.index.json` lists."""
    try:
        names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    except OSError as error:
        raise ModelError(f"{index}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{index}: not an index of shards", "use the index that came with the model") from error
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+\.safetensors", name):
            raise ModelError(
                f"{index}: names the shard {name!r}", "a shard is a .safetensors file beside the index, named plainly"
            )
    return names
