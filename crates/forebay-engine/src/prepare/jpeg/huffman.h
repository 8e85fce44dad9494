/* The entropy decoder that stands in for libjpeg's: see huffman.c. */

#ifndef FOREBAY_HUFFMAN_H
#define FOREBAY_HUFFMAN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

/* Bits of input that index a table. More of them decode more symbols at once, but the tables of a scan
 * should stay in half an L1 cache; and an entry of `pair` has room for values of no more than 10 bits. */
#define INDEX_BITS 10
_Static_assert(INDEX_BITS <= 10, "the first value of a pair has 10 bits");

/* The longest that an MCU can be: ten blocks of 64 symbols, each of at most 16 bits of code and 15 of value. */
#define MCU_BYTES (D_MAX_BLOCKS_IN_MCU * DCTSIZE2 * 31 / 8)

/* Input that is cleaned at a time, and zeros after the last of it: an MCU that starts within the input
 * ends within the padding, so that the inner loops need not look where they read. */
#define CLEAN_BYTES (16 * 1024)
#define PADDING (MCU_BYTES + 64)

/* How many times `worth_learning` may pass in small files before one is learned from. */
#define PATIENCE 16

/* A Huffman code: bits in, symbol and length out. */
struct huffman_code {
  boolean is_learned;
  UINT8 bits[17];            /* its definition, to tell whether a file brings a new one */
  UINT8 values[256];
  uint16_t look[1 << INDEX_BITS]; /* length << 8 | symbol, or 0 where the code is longer */
  uint32_t limit[17];        /* codes of up to this length, left-aligned in 16 bits, are below */
  int32_t offset[17];        /* index in values, less the code */
};

/* A code for the AC coefficients of a block, with what its symbols do. */
struct ac_code {
  struct huffman_code code;
  uint64_t pair[1 << INDEX_BITS];
  uint16_t skip[1 << INDEX_BITS];
};

/* One block of an MCU. */
struct block_plan {
  const struct huffman_code *dc;
  const struct ac_code *ac;
  int component;             /* within the scan */
  boolean wants_ac;
};

/* Where in the bit stream we are: `count` bits at the top of `bits`, then the bytes at `next`. */
struct bit_position {
  uint64_t bits;
  unsigned count;
  const uint8_t *next;
};

struct huffman_decoder {
  /* The loops for this machine. */
  void (*decode_wanted)(struct huffman_decoder *decoder, j_decompress_ptr cinfo, JBLOCKROW *mcu);
  void (*pass_unwanted)(struct huffman_decoder *decoder, j_decompress_ptr cinfo, unsigned long count);

  /* The scan. */
  int blocks;
  struct block_plan plan[D_MAX_BLOCKS_IN_MCU];
  JDIMENSION columns;        /* MCUs in a row */
  JDIMENSION first, last;    /* those that are wanted */

  /* Progress. */
  JDIMENSION column;
  unsigned long owed;        /* unwanted MCUs that have not been decoded yet */
  unsigned restarts_to_go;
  int next_restart;
  boolean is_exhausted;      /* the segment ended before its MCUs did */
  unsigned prediction[MAX_COMPS_IN_SCAN];

  /* The input, freed of stuffing. */
  struct bit_position at;
  const uint8_t *clean_end;
  boolean is_last;           /* `clean` holds the segment to its end */
  uint8_t clean[CLEAN_BYTES + PADDING];

  /* Tables, kept from image to image. */
  size_t worth_learning;     /* bytes of a scan that make it worth to build the tables of its codes */
  size_t passed;             /* bytes of small scans left to libjpeg since one was learned from */
  struct huffman_code dc[NUM_HUFF_TBLS];
  struct ac_code ac[NUM_HUFF_TBLS];
};

/* Takes over the entropy decoding of a started image, if it is one that this decoder knows: a single
 * baseline scan. `left` and `width` are the columns of pixels that are wanted. */
boolean huffman_take_over(struct huffman_decoder *decoder, j_decompress_ptr cinfo, JDIMENSION left, JDIMENSION width);

/* Hands the input back to libjpeg after the last row. */
void huffman_finish(struct huffman_decoder *decoder, j_decompress_ptr cinfo);

#endif
