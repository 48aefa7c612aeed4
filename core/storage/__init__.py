"""Recordings and answers that lie elsewhere, in whatever store fsspec reaches."""
