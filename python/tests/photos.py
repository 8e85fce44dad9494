"""Photographs, and the same photographs in every shape a file can have.

The pictures come with scikit-image's wheel; the files that Pillow cannot write are put together here, byte by byte.
"""

from __future__ import annotations

import importlib.util
import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

_SKIMAGE = importlib.util.find_spec("skimage")
FOLDER = Path(next(iter(_SKIMAGE.submodule_search_locations or []))) / "data" if _SKIMAGE else None
NAMES = ["chelsea.png", "coffee.png", "rocket.jpg"]


def photo(name: str) -> Image.Image:
    assert FOLDER is not None
    return Image.open(FOLDER / name).convert("RGB")


def encode(image: Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def mosaic(side: int) -> Image.Image:
    """A picture of about ``side`` pixels, with the detail of real photographs in every place."""
    whole = Image.new("RGB", (side, side * 3 // 4))
    tiles = [photo(name) for name in [*NAMES, "astronaut.png", "motorcycle_left.png", "retina.jpg"]]
    x = y = i = height = 0
    while y < whole.height:
        tile = tiles[i % len(tiles)]
        whole.paste(tile, (x, y))
        x, height, i = x + tile.width, max(height, tile.height), i + 1
        if x >= whole.width:
            x, y, height = 0, y + height, 0
    return whole


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png(samples: np.ndarray, *, depth: int, colour: int, interlaced: bool = False, chunks: bytes = b"") -> bytes:
    """A PNG of any kind the format has, from rows of samples: (height, width, channels)."""
    height, width, _ = samples.shape

    def rows(part: np.ndarray) -> bytes:
        if 0 in part.shape:
            return b""
        if depth == 16:
            return b"".join(b"\0" + row.astype(">u2").tobytes() for row in part)
        if depth == 8:
            return b"".join(b"\0" + row.astype("u1").tobytes() for row in part)
        bits = np.unpackbits(part.astype("u1").reshape(len(part), -1, 1), axis=2)[:, :, 8 - depth :]
        return b"".join(b"\0" + np.packbits(row.reshape(-1)).tobytes() for row in bits)

    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    data = b"".join(rows(samples[y::down, x::right]) for x, y, right, down in passes)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    body = [(b"IHDR", header), chunks, (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(part if isinstance(part, bytes) else png_chunk(*part) for part in body)


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def files() -> dict[str, bytes]:
    """One file of each kind, by name."""
    colour = photo("chelsea.png").crop((90, 30, 333, 232))  # odd in both directions
    grey = colour.convert("L")
    clear = colour.copy()
    clear.putalpha(grey)
    palette = colour.quantize(64)
    levels = np.asarray(grey)[:, :, None].astype("u2")
    wide = np.asarray(colour).astype("u2") * 257 - np.asarray(colour).astype("u2") % 5
    alpha = levels * 250
    out = {
        f"jpeg-{name}": encode(colour, "JPEG", quality=quality, subsampling=subsampling)
        for name, quality, subsampling in [("420", 85, 2), ("422", 85, 1), ("444", 95, 0), ("420-poor", 10, 2)]
    }
    out["jpeg-progressive"] = encode(colour, "JPEG", quality=85, progressive=True)
    out["jpeg-progressive-444"] = encode(colour, "JPEG", quality=85, progressive=True, subsampling=0)
    out["jpeg-restarts"] = encode(colour, "JPEG", quality=85, restart_marker_blocks=3)
    out["jpeg-grey"] = encode(grey, "JPEG", quality=85)
    out["jpeg-cmyk"] = encode(colour.convert("CMYK"), "JPEG", quality=85)
    out["jpeg-cmyk-progressive"] = encode(colour.convert("CMYK"), "JPEG", quality=85, progressive=True)
    out["png-rgb"] = encode(colour, "PNG")
    out["png-rgba"] = encode(clear, "PNG")
    out["png-palette"] = encode(palette, "PNG")
    out["png-palette-clear"] = encode(palette, "PNG", transparency=3)
    out["png-palette-4-bit"] = encode(colour.quantize(16), "PNG", bits=4)
    out["png-grey"] = encode(grey, "PNG")
    out["png-grey-alpha"] = encode(clear.convert("LA"), "PNG")
    out["png-bilevel"] = encode(grey.convert("1"), "PNG")
    for depth in (1, 2, 4):
        out[f"png-grey-{depth}-bit"] = png(levels >> (8 - depth), depth=depth, colour=0)
        out[f"png-grey-{depth}-bit-interlaced"] = png(levels >> (8 - depth), depth=depth, colour=0, interlaced=True)
    out["png-grey-clear"] = png(levels, depth=8, colour=0, chunks=png_chunk(b"tRNS", struct.pack(">H", 90)))
    out["png-rgb-clear"] = png(wide >> 8, depth=8, colour=2, chunks=png_chunk(b"tRNS", struct.pack(">HHH", 9, 9, 9)))
    out["png-grey-16-bit"] = png(levels * 3, depth=16, colour=0)
    out["png-rgb-16-bit"] = png(wide, depth=16, colour=2)
    out["png-rgba-16-bit"] = png(np.concatenate([wide, alpha], axis=2), depth=16, colour=6)
    out["png-grey-alpha-16-bit"] = png(np.concatenate([levels * 257, alpha], axis=2), depth=16, colour=4)
    out["png-interlaced"] = png(wide >> 8, depth=8, colour=2, interlaced=True)
    out["png-interlaced-16-bit"] = png(wide, depth=16, colour=2, interlaced=True)
    out["png-animated"] = encode(colour, "PNG", save_all=True, append_images=[colour.rotate(180)])
    out["webp"] = encode(colour, "WEBP", quality=80)
    out["webp-lossless"] = encode(colour, "WEBP", lossless=True)
    out["webp-alpha"] = encode(clear, "WEBP", quality=80)
    out["webp-alpha-lossless"] = encode(clear, "WEBP", lossless=True, exact=True)
    out["webp-animated"] = encode(colour, "WEBP", save_all=True, append_images=[colour.rotate(180)], lossless=True)
    out["webp-animated-alpha"] = encode(clear, "WEBP", save_all=True, append_images=[clear.rotate(9)], lossless=True)
    out["bmp-rgb"] = encode(colour, "BMP")
    out["bmp-grey"] = encode(grey, "BMP")
    out["bmp-palette"] = encode(palette, "BMP")
    out["bmp-bilevel"] = encode(grey.convert("1"), "BMP")
    out["bmp-rgba"] = encode(clear, "BMP")
    out["gif"] = encode(palette, "GIF")
    out["gif-grey"] = encode(grey, "GIF")
    out["gif-clear"] = encode(palette, "GIF", transparency=3)
    out["gif-interlaced"] = encode(palette, "GIF", interlace=1)
    out["gif-animated"] = encode(palette, "GIF", save_all=True, append_images=[palette.rotate(180)])
    gif = out["gif-animated"]
    larger = struct.pack("<HH", colour.width + 7, colour.height + 4)
    out["gif-first-frame-smaller"] = gif[:6] + larger + gif[10:]
    gif = out["gif-clear"]
    out["gif-clear-first-frame-smaller"] = gif[:6] + larger + gif[10:]
    gif = out["gif"]
    out["gif-first-frame-larger"] = gif[:6] + struct.pack("<HH", 100, 90) + gif[10:]
    width, height = colour.size
    out["pbm"] = encode(grey.convert("1"), "PPM")
    out["pgm"] = encode(grey, "PPM")
    out["ppm"] = encode(colour, "PPM")
    out["pgm-16-bit"] = f"P5 {width} {height} 65535\n".encode() + (levels * 257).astype(">u2").tobytes()
    out["pgm-10-bit"] = f"P5 {width} {height} 1023\n".encode() + levels.astype(">u2").tobytes()
    out["ppm-16-bit"] = f"P6 {width} {height} 65535\n".encode() + wide.astype(">u2").tobytes()
    out["pgm-31-levels"] = f"P5 {width} {height} 31\n".encode() + (levels >> 3).astype("u1").tobytes()
    out["ppm-31-levels"] = f"P6 {width} {height} 31\n".encode() + (wide >> 11).astype("u1").tobytes()
    text = "\n".join(" ".join(map(str, row.reshape(-1))) for row in levels)
    out["pgm-text"] = f"P2\n# a remark\n{width} {height}\n255\n{text}\n".encode()
    text = "\n".join(" ".join(map(str, row.reshape(-1))) for row in np.asarray(colour))
    out["ppm-text"] = f"P3\n{width} {height}\n255\n{text}\n".encode()
    text = "\n".join(" ".join(map(str, row.reshape(-1))) for row in levels >> 7)
    out["pbm-text"] = f"P1\n{width} {height}\n{text}\n".encode()
    return out
