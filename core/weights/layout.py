"""The published checkpoint's tensors: every name and shape, and where each goes in our modules.

The one rename table. `lm_layout` and `mimi_layout` map a checkpoint's tensor names to `Place`s.
"""

from dataclasses import dataclass

from personaplex.core.config import CODEBOOKS, STREAMS, LMConfig, MimiConfig

STORED_CODEBOOKS = 32  # of which a model uses 8; the others are accepted and left unread


@dataclass(frozen=True)
class Place:
    """Where a tensor of `shape` goes: into our parameter `target`, at `index` of its first dimension if given.

    Where that dimension packs several tensors one behind the other, `index` counts them.

    `target` None: the tensor is known and not needed. Where the checkpoint packs more depth steps than we run into
    the first dimension, only the leading rows are read.
    """

    shape: tuple[int, ...]
    target: str | None
    index: int | None = None
    optional: bool = False

    @property
    def is_quantised(self) -> bool:
        """Whether it is one of those that are held in int8 where that is asked for."""
        return len(self.shape) == 2 and (self.target or "").startswith("temporal.layers.")


Layout = dict[str, Place]


def lm_layout(config: LMConfig) -> Layout:
    """Tensors of a language model checkpoint with `config.depth.codebooks` depth steps."""
    dim, audio = config.dim, config.audio_vocab
    layout = {f"emb.{k}.weight": Place((audio + 1, dim), "emb", k) for k in range(STREAMS - 1)}
    layout["text_emb.weight"] = Place((config.text_vocab + 1, dim), "text_emb")
    layout["text_linear.weight"] = Place((config.text_vocab, dim), "text_linear")
    for n in range(config.num_layers):
        theirs, ours = f"transformer.layers.{n}", f"temporal.layers.{n}"
        layout |= {
            f"{theirs}.self_attn.in_proj_weight": Place((3 * dim, dim), f"{ours}.in_proj"),
            f"{theirs}.self_attn.out_proj.weight": Place((dim, dim), f"{ours}.out_proj"),
            f"{theirs}.norm1.alpha": Place((1, 1, dim), f"{ours}.norm1.alpha"),
            f"{theirs}.norm2.alpha": Place((1, 1, dim), f"{ours}.norm2.alpha"),
            f"{theirs}.gating.linear_in.weight": Place((2 * config.feedforward, dim), f"{ours}.linear_in"),
            f"{theirs}.gating.linear_out.weight": Place((dim, config.feedforward), f"{ours}.linear_out"),
        }
    layout["out_norm.alpha"] = Place((1, 1, dim), "temporal.out_norm.alpha")
    return layout | _depth_layout(config)


def _depth_layout(config: LMConfig) -> Layout:
    depth, audio = config.depth, config.audio_vocab
    dim, steps, feedforward = depth.dim, depth.codebooks, depth.feedforward
    layout = {"depformer_text_emb.weight": Place((config.text_vocab + 1, dim), "depth.text_emb")}
    for k in range(steps):
        layout[f"depformer_in.{k}.weight"] = _step((dim, config.dim), "depth.from_temporal", k)
        layout[f"linears.{k}.weight"] = _step((audio, dim), "depth.heads_out", k)
    for k in range(steps - 1):
        layout[f"depformer_emb.{k}.weight"] = _step((audio + 1, dim), "depth.emb", k, CODEBOOKS - 1)
    for n in range(depth.num_layers):
        theirs, ours = f"depformer.layers.{n}", f"depth.layers.{n}"
        layout |= {
            f"{theirs}.self_attn.in_proj_weight": Place((steps * 3 * dim, dim), f"{ours}.in_proj"),
            f"{theirs}.self_attn.out_proj.weight": Place((steps * dim, dim), f"{ours}.out_proj"),
            f"{theirs}.norm1.alpha": Place((1, 1, dim), f"{ours}.norm1.alpha"),
            f"{theirs}.norm2.alpha": Place((1, 1, dim), f"{ours}.norm2.alpha"),
        }
        for k in range(steps):
            layout[f"{theirs}.gating.{k}.linear_in.weight"] = _step((2 * feedforward, dim), f"{ours}.linear_in", k)
            layout[f"{theirs}.gating.{k}.linear_out.weight"] = _step((dim, feedforward), f"{ours}.linear_out", k)
    return layout


def _step(shape: tuple[int, ...], target: str, step: int, run: int = CODEBOOKS) -> Place:
    return Place(shape, target, step) if step < run else Place(shape, None)


def mimi_layout(config: MimiConfig) -> Layout:
    """Tensors of a codec checkpoint; codebooks beyond the used ones may be there."""
    dim = config.dim
    layout = _encoder_layout(config) | _decoder_layout(config)
    for name in ("encoder_transformer", "decoder_transformer"):
        layout |= _transformer_layout(name, config)
    layout["downsample.conv.conv.conv.weight"] = Place((dim, dim, 4), "downsample.weight")
    layout["upsample.convtr.convtr.convtr.weight"] = Place((dim, 1, 4), "upsample.weight")
    for name, used, stored in (("first", 1, 1), ("rest", config.codebooks - 1, STORED_CODEBOOKS - 1)):
        theirs, ours = f"quantizer.rvq_{name}", f"quantizer.{name}"
        layout[f"{theirs}.input_proj.weight"] = Place((config.codebook_dim, dim, 1), f"{ours}.input_proj")
        layout[f"{theirs}.output_proj.weight"] = Place((dim, config.codebook_dim, 1), f"{ours}.output_proj")
        for k in range(stored):
            layout |= _codebook_layout(f"{theirs}.vq.layers.{k}._codebook", ours, k, k < used, config)
    return layout


def _codebook_layout(theirs: str, ours: str, index: int, used: bool, config: MimiConfig) -> Layout:
    size = config.codebook_size
    targets = {"embedding_sum": (size, config.codebook_dim), "cluster_usage": (size,)}
    layout = {
        f"{theirs}.{name}": Place(shape, f"{ours}.{name}" if used else None, index if used else None, not used)
        for name, shape in targets.items()
    }
    return layout | {f"{theirs}._initialized": Place((1,), None, optional=True)}


def _conv(theirs: str, ours: str, shape: tuple[int, int, int], transposed: bool = False) -> Layout:
    kind = "convtr.convtr" if transposed else "conv.conv"
    bias = (shape[1] if transposed else shape[0],)
    return {
        f"{theirs}.{kind}.weight": Place(shape, f"{ours}.weight"),
        f"{theirs}.{kind}.bias": Place(bias, f"{ours}.bias"),
    }


def _residual(theirs: str, ours: str, dim: int) -> Layout:
    return _conv(f"{theirs}.block.1", f"{ours}.narrow", (dim // 2, dim, 3)) | _conv(
        f"{theirs}.block.3", f"{ours}.widen", (dim, dim // 2, 1)
    )


def _encoder_layout(config: MimiConfig) -> Layout:
    width, place = config.filters, 1
    layout = _conv("encoder.model.0", "encoder.first", (width, 1, 7))
    for n, ratio in enumerate(reversed(config.ratios)):
        ours = f"encoder.stages.{n}"
        layout |= _residual(f"encoder.model.{place}", f"{ours}.block", width)
        layout |= _conv(f"encoder.model.{place + 2}", f"{ours}.down", (2 * width, width, 2 * ratio))
        width, place = 2 * width, place + 3
    return layout | _conv(f"encoder.model.{place + 1}", "encoder.last", (config.dim, width, 3))


def _decoder_layout(config: MimiConfig) -> Layout:
    width, place = config.filters * 2 ** len(config.ratios), 2
    layout = _conv("decoder.model.0", "decoder.first", (width, config.dim, 7))
    for n, ratio in enumerate(config.ratios):
        ours = f"decoder.stages.{n}"
        layout |= _conv(f"decoder.model.{place}", f"{ours}.up", (width, width // 2, 2 * ratio), transposed=True)
        layout |= _residual(f"decoder.model.{place + 1}", f"{ours}.block", width // 2)
        width, place = width // 2, place + 3
    return layout | _conv(f"decoder.model.{place}", "decoder.last", (1, width, 3))


def _transformer_layout(name: str, config: MimiConfig) -> Layout:
    dim, feedforward = config.dim, config.transformer.feedforward
    layout: Layout = {}
    for n in range(config.transformer.num_layers):
        theirs, ours = f"{name}.transformer.layers.{n}", f"{name}.layers.{n}"
        layout |= {
            f"{theirs}.self_attn.in_proj_weight": Place((3 * dim, dim), f"{ours}.in_proj.weight"),
            f"{theirs}.self_attn.out_proj.weight": Place((dim, dim), f"{ours}.out_proj.weight"),
            f"{theirs}.linear1.weight": Place((feedforward, dim), f"{ours}.linear1.weight"),
            f"{theirs}.linear2.weight": Place((dim, feedforward), f"{ours}.linear2.weight"),
            f"{theirs}.layer_scale_1.scale": Place((dim,), f"{ours}.scale1"),
            f"{theirs}.layer_scale_2.scale": Place((dim,), f"{ours}.scale2"),
        }
        for norm in ("norm1", "norm2"):
            layout |= {f"{theirs}.{norm}.{part}": Place((dim,), f"{ours}.{norm}.{part}") for part in ("weight", "bias")}
    return layout
