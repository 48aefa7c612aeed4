"""Which file names are those of recordings, and what reads each: the one place that says so. Imports nothing."""

SOUNDFILE_SUFFIXES = frozenset(
    f".{name}"
    for name in (
        *("wav", "wave", "flac", "ogg", "oga", "opus", "mp3", "aiff", "aif", "aifc"),
        *("au", "snd", "sph", "nist", "w64", "rf64", "caf", "voc"),
    )
)
"""What libsndfile reads."""
MEDIA_SUFFIXES = frozenset(
    f".{name}"
    for name in (
        *("m4a", "m4b", "mp4", "mov", "3gp", "3g2", "webm", "mka", "mkv", "weba"),
        *("aac", "adts", "amr", "awb", "wma", "asf", "wmv", "g722", "avi", "flv", "mp2", "wv"),
    )
)
"""What PyAV reads, which comes with the extra `personaplex[media]`."""
RECORDING_SUFFIXES = SOUNDFILE_SUFFIXES | MEDIA_SUFFIXES
"""All of them, in lower case and with their dot."""
