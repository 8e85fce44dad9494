/* Huffman decoding of baseline JPEG, about twice as fast as libjpeg-turbo's.
 *
 * Most of the time of a JPEG goes into finding where one symbol ends and the next begins, each lookup
 * waiting for the one before. So a lookup here yields two coefficients where they fit its index, and
 * where nobody wants the coefficients it passes over as many as fit. Three more things keep the loop short:
 *
 * - The input is first copied without its stuffing bytes and padded with zeros, so that the loop
 *   neither looks for markers nor checks bounds.
 * - MCUs outside the wanted rows and columns are only counted, and decoded in one go when one behind
 *   them is wanted. Those after the last wanted one are never decoded at all.
 * - Tables are kept from image to image, for most files bring the same.
 *
 * Whatever the input, coefficients come out as libjpeg's decoder gives them: after the end of a segment
 * follow zero bits until the MCU is complete, further MCUs stay empty, and an unknown code is 17 bits long and
 * reads as 0. Restart marks out of order are left to libjpeg's own recovery. One difference is on purpose: where a
 * stray marker interrupts a scan, libjpeg's fast loop gives up, its slow loop decodes the MCU again, and
 * coefficients of the first attempt stay behind. Ours come out as those of the slow loop alone.
 */

#include "huffman.h"

#include <stdlib.h>
#include <string.h>

#include <jerror.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#if JPEG_LIB_VERSION >= 70
#define SCALED_SIZE(info) ((info)->DCT_h_scaled_size)
#define SMALLEST_SCALED_SIZE(cinfo) ((cinfo)->min_DCT_h_scaled_size)
#else
#define SCALED_SIZE(info) ((info)->DCT_scaled_size)
#define SMALLEST_SCALED_SIZE(cinfo) ((cinfo)->min_DCT_scaled_size)
#endif

/* The head of libjpeg's private record of an entropy decoder, as jpegint.h of libjpeg-turbo 3 has it. All
 * that we rely on beyond the public interface is that `decode_mcu` is the second; other versions decode by
 * themselves until someone has looked. */
#define IS_KNOWN_VERSION (LIBJPEG_TURBO_VERSION_NUMBER >= 3000000 && LIBJPEG_TURBO_VERSION_NUMBER < 4000000)
struct jpeg_entropy_decoder {
  void (*start_pass)(j_decompress_ptr cinfo);
  boolean (*decode_mcu)(j_decompress_ptr cinfo, JBLOCKROW *mcu);
};

/* Places of coefficients in the order of the stream. A run that overshoots the block lands on the last. */
static const uint8_t PLACE[DCTSIZE2 + 16] = {
  0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,
  6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31,
  39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63,
};

/* ---- Bits ---- */

INLINE uint64_t big_endian(const uint8_t *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  word = __builtin_bswap64(word);
#endif
  return word;
}

/* Tops the bits up to at least 56. */
INLINE void refill(struct bit_position *at) {
  at->bits |= big_endian(at->next) >> at->count;
  at->next += (63 - at->count) >> 3;
  at->count |= 56;
}

INLINE void drop(struct bit_position *at, unsigned count) {
  at->bits <<= count & 63;
  at->count -= count;
}

/* The signed value that the top `size` bits stand for, 0 to 15 of them. */
INLINE int value(uint64_t bits, unsigned size) {
  int is_positive = (int)((int64_t)bits >> 63);
  int largest = (1 << size) - 1;
  return (int)((bits >> 1) >> (63 - size)) - (largest & ~is_positive);
}

/* ---- Tables ---- */

/* Symbol and length of a code that the table is too short for. An unknown code has length 17. */
static __attribute__((noinline)) unsigned long_symbol(const struct huffman_code *code, uint64_t bits) {
  uint32_t peek = (uint32_t)(bits >> 48);
  unsigned length = INDEX_BITS + 1;
  for (int shorter = INDEX_BITS + 1; shorter < 16; shorter++)
    length += peek >= code->limit[shorter];
  if (peek >= code->limit[16])
    return 17 << 8;
  return length << 8 | code->values[(code->offset[length] + (int32_t)(peek >> (16 - length))) & 0xff];
}

INLINE unsigned symbol(const struct huffman_code *code, uint64_t bits) {
  unsigned entry = code->look[bits >> (64 - INDEX_BITS)];
  return LIKELY(entry) ? entry : long_symbol(code, bits);
}

/* Whether the code is the one that the file defines. */
static boolean is_same(const struct huffman_code *code, const JHUFF_TBL *table) {
  return code->is_learned && !memcmp(code->bits + 1, table->bits + 1, 16) &&
         !memcmp(code->values, table->huffval, sizeof code->values);
}

/* Takes over a code that a file defines. libjpeg has refused by then those that are none. */
static boolean learn(struct huffman_code *code, const JHUFF_TBL *table) {
  uint32_t next = 0, index = 0;
  code->is_learned = FALSE;
  for (int length = 1; length <= 16; length++, next <<= 1) {
    code->offset[length] = (int32_t)(index - next);
    index += table->bits[length];
    next += table->bits[length];
    if (index > 256 || next >> length) /* all ones is not a code */
      return FALSE;
    code->limit[length] = next << (16 - length);
  }
  memcpy(code->bits, table->bits, sizeof code->bits);
  memcpy(code->values, table->huffval, sizeof code->values);
  uint16_t *look = code->look;
  index = 0;
  for (unsigned length = 1; length <= INDEX_BITS; length++)
    for (unsigned i = 0; i < table->bits[length]; i++, index++)
      for (unsigned span = 1u << (INDEX_BITS - length); span; span--)
        *look++ = (uint16_t)(length << 8 | table->huffval[index]);
  while (look < code->look + (1 << INDEX_BITS))
    *look++ = 0;
  code->is_learned = TRUE;
  return TRUE;
}

/* What one symbol does: takes bits of code, then bits of value, and advances by coefficients. */
struct step {
  unsigned bits, size, advance;
  boolean is_known, is_end;
};

/* The symbol at the top of `bits`, known if its code is within those `available`. */
INLINE struct step step_of(const uint16_t *look, uint64_t bits, unsigned available) {
  unsigned entry = look[bits >> (64 - INDEX_BITS)], length = entry >> 8, run = entry >> 4 & 15, size = entry & 15;
  struct step step = {length, size, run + 1, length != 0 && length <= available, size == 0 && run != 15};
  return step;
}

/* Added to the advance of an entry that ends the block, and the advance of one that does not suffice. */
#define ENDS 128
#define BEYOND 64

/* An entry of `pair`, a coefficient or two, from the lowest bits up:
 *
 *    8  bits to drop
 *    8  coefficients to advance in all
 *    8  coefficients to advance for the first value
 *    8  `down` and
 *    6  `up`: the second value's own bits are the input shifted up, then down
 *   10  first value
 *   16  second value: what its own bits are added to, unless the topmost of them is set
 *
 * A single coefficient is given twice. Where the index tells the second value whole, nothing is to be
 * added: the shifts then single out a zero bit of the first code, which has one since no code is all ones. */
static uint64_t pair_of(unsigned drop, unsigned first_advance, unsigned advance, unsigned up, unsigned down, int first,
                        int second) {
  uint32_t low = (uint32_t)down << 24 | first_advance << 16 | advance << 8 | drop;
  uint32_t high = (uint32_t)second << 16 | ((uint32_t)first & 0x3ff) << 6 | up;
  return (uint64_t)high << 32 | low;
}

static uint64_t pair_entry(const uint16_t *look, unsigned index) {
  uint64_t bits = (uint64_t)index << (64 - INDEX_BITS);
  unsigned zero = (unsigned)__builtin_clzll(~bits);
  struct step a = step_of(look, bits, INDEX_BITS);
  if (!a.is_known)
    return pair_of(0, 0, BEYOND, 0, 0, 0, 0);
  if (a.is_end)
    return pair_of(a.bits, 1, 1 + ENDS, zero, 63, 0, 0);
  unsigned used = a.bits + a.size;
  if (used > INDEX_BITS)
    return pair_of(used, a.advance, a.advance, a.bits, 64 - a.size, 0, 1 - (1 << a.size));
  int first = value(bits << a.bits, a.size);
  struct step b = step_of(look, bits << used, INDEX_BITS - used);
  if (!b.is_known)
    return pair_of(used, a.advance, a.advance, zero, 63, first, first);
  used += b.bits;
  if (b.is_end)
    return pair_of(used, a.advance, a.advance + ENDS, zero, 63, first, first);
  unsigned advance = a.advance + b.advance;
  if (used + b.size > INDEX_BITS)
    return pair_of(used + b.size, a.advance, advance, used, 64 - b.size, first, 1 - (1 << b.size));
  int second = value(bits << used, b.size);
  used += b.size;
  struct step c = step_of(look, bits << used, INDEX_BITS - used);
  if (c.is_known && c.is_end)
    return pair_of(used + c.bits, a.advance, advance + ENDS, zero, 63, first, second);
  return pair_of(used, a.advance, advance, zero, 63, first, second);
}

/* An entry of `skip` is the lower half of one of `pair`, with a third coefficient if it fits. */
static uint16_t skip_entry(const uint16_t *look, unsigned index, uint64_t pair) {
  unsigned used = (uint8_t)pair, advance = (uint8_t)(pair >> 8);
  if (advance < BEYOND && used < INDEX_BITS) {
    struct step step = step_of(look, (uint64_t)index << (64 - INDEX_BITS + used), INDEX_BITS - used);
    if (step.is_known) {
      used += step.bits + step.size;
      advance += step.advance;
    }
  }
  return (uint16_t)(advance << 8 | used);
}

static boolean learn_ac(struct ac_code *ac, const JHUFF_TBL *table) {
  if (!learn(&ac->code, table))
    return FALSE;
  for (unsigned i = 0; i < 1 << INDEX_BITS; i++) {
    ac->pair[i] = pair_entry(ac->code.look, i);
    ac->skip[i] = skip_entry(ac->code.look, i, ac->pair[i]);
  }
  return TRUE;
}

/* ---- Blocks ---- */

/* Decodes the symbol that no table entry answers for, past coefficient `k`. Returns the coefficient it
 * ends at, or the last if it ends the block. */
INLINE size_t single(const struct huffman_code *code, struct bit_position *at, size_t k, JCOEF *block) {
  refill(at);
  unsigned entry = symbol(code, at->bits), run = entry >> 4 & 15, size = entry & 15;
  drop(at, entry >> 8);
  if (size == 0)
    return run == 15 ? k + 16 : DCTSIZE2 - 1;
  k += run + 1;
  if (block)
    block[PLACE[k]] = (JCOEF)value(at->bits, size);
  drop(at, size);
  return k;
}

INLINE int dc_difference(const struct huffman_code *code, struct bit_position *at) {
  refill(at);
  unsigned entry = symbol(code, at->bits), size = entry & 15;
  drop(at, entry >> 8);
  int difference = value(at->bits, size);
  drop(at, size);
  return difference;
}

/* Writes the coefficient or two of an entry of `pair`. */
INLINE void put(JCOEF *block, uint64_t bits, uint64_t entry, size_t first, size_t second) {
  uint64_t up = bits << (entry >> 32 & 63), own = up >> (entry >> 24 & 63);
  int64_t base = (int64_t)entry >> 48 & ~((int64_t)up >> 63);
  block[PLACE[first]] = (JCOEF)((int16_t)(entry >> 32) >> 6);
  block[PLACE[second]] = (JCOEF)(base + (int64_t)own);
}

INLINE void store_ac(const struct ac_code *ac, struct bit_position *at, JCOEF *block) {
  size_t k = 0;
  do {
    refill(at);
    /* Two lookups to a refill: each takes at most 10 bits of index and 15 of value. */
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
      uint64_t entry = ac->pair[at->bits >> (64 - INDEX_BITS)];
      size_t first = k + (uint8_t)(entry >> 16), next = k + (uint8_t)(entry >> 8);
      if (UNLIKELY(next >= DCTSIZE2 - 1)) {
        if (next - ENDS < DCTSIZE2 - 1) {
          put(block, at->bits, entry, first, next - ENDS);
          drop(at, (uint8_t)entry);
          return;
        }
        k = single(&ac->code, at, k, block);
        break;
      }
      put(block, at->bits, entry, first, next);
      drop(at, (uint8_t)entry);
      k = next;
    }
  } while (k < DCTSIZE2 - 1);
}

INLINE void skip_ac(const struct ac_code *ac, struct bit_position *at) {
  size_t k = 0;
  do {
    refill(at);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
      unsigned entry = ac->skip[at->bits >> (64 - INDEX_BITS)];
      size_t next = k + (entry >> 8);
      if (UNLIKELY(next >= DCTSIZE2 - 1)) {
        if (next - ENDS < DCTSIZE2 - 1) {
          drop(at, (uint8_t)entry);
          return;
        }
        k = single(&ac->code, at, k, NULL);
        break;
      }
      drop(at, (uint8_t)entry);
      k = next;
    }
  } while (k < DCTSIZE2 - 1);
}

/* ---- Input ---- */

/* The file ends within the scan. */
static __attribute__((noreturn)) void fail_at_end(j_decompress_ptr cinfo) {
  ERREXIT(cinfo, JWRN_JPEG_EOF);
  abort(); /* an error never returns */
}

/* Cleans more input: drops stuffing, stops at a marker and pads with zeros after it. */
static __attribute__((noinline)) void clean_more(struct huffman_decoder *decoder, j_decompress_ptr cinfo) {
  size_t kept = (size_t)(decoder->clean_end - decoder->at.next);
  memmove(decoder->clean, decoder->at.next, kept);
  decoder->at.next = decoder->clean;
  uint8_t *out = decoder->clean + kept, *full = decoder->clean + CLEAN_BYTES;
  const JOCTET *in = cinfo->src->next_input_byte, *end = in + cinfo->src->bytes_in_buffer;
  while (out < full && cinfo->unread_marker == 0) {
    size_t most = (size_t)(full - out) < (size_t)(end - in) ? (size_t)(full - out) : (size_t)(end - in);
    const JOCTET *mark = memchr(in, 0xff, most);
    size_t plain = mark ? (size_t)(mark - in) : most;
    memcpy(out, in, plain);
    out += plain;
    in += plain;
    if (out == full)
      break;
    while (in < end && *in == 0xff)
      in++;
    if (in == end)
      fail_at_end(cinfo);
    if (*in == 0)
      *out++ = 0xff;
    else
      cinfo->unread_marker = *in;
    in++;
  }
  cinfo->src->next_input_byte = in;
  cinfo->src->bytes_in_buffer = (size_t)(end - in);
  decoder->clean_end = out;
  decoder->is_last = cinfo->unread_marker != 0;
  if (decoder->is_last)
    memset(out, 0, PADDING);
}

static void start_segment(struct huffman_decoder *decoder) {
  decoder->at.bits = 0;
  decoder->at.count = 0;
  decoder->at.next = decoder->clean_end = decoder->clean;
  decoder->is_last = FALSE;
  memset(decoder->prediction, 0, sizeof decoder->prediction);
}

/* Finds the restart mark and starts the segment behind it. */
static void restart(struct huffman_decoder *decoder, j_decompress_ptr cinfo) {
  const JOCTET *in = cinfo->src->next_input_byte, *end = in + cinfo->src->bytes_in_buffer;
  while (cinfo->unread_marker == 0) {
    while (in < end && *in != 0xff)
      in++;
    while (in < end && *in == 0xff)
      in++;
    if (in == end)
      fail_at_end(cinfo);
    cinfo->unread_marker = *in++;
  }
  cinfo->src->next_input_byte = in;
  cinfo->src->bytes_in_buffer = (size_t)(end - in);
  if (cinfo->unread_marker == JPEG_RST0 + decoder->next_restart)
    cinfo->unread_marker = 0;
  else
    (*cinfo->src->resync_to_restart)(cinfo, decoder->next_restart);
  decoder->next_restart = (decoder->next_restart + 1) & 7;
  decoder->restarts_to_go = cinfo->restart_interval;
  start_segment(decoder);
  if (cinfo->unread_marker == 0)
    decoder->is_exhausted = FALSE;
}

/* ---- MCUs ---- */

/* Decodes MCUs of one segment: the one that is wanted into `mcu`, or `count` of those that are not. */
INLINE void decode_segment(struct huffman_decoder *decoder, j_decompress_ptr cinfo, boolean is_wanted, JBLOCKROW *mcu,
                           unsigned long count) {
  struct bit_position at = decoder->at;
  for (; count; count--) {
    if (UNLIKELY(decoder->clean_end - at.next < MCU_BYTES + 16) && !decoder->is_last) {
      decoder->at = at;
      clean_more(decoder, cinfo);
      at = decoder->at;
    }
    for (int i = 0; i < decoder->blocks; i++) {
      const struct block_plan *plan = &decoder->plan[i];
      /* Unsigned, for the values of a damaged file may overflow. */
      unsigned dc = decoder->prediction[plan->component] += (unsigned)dc_difference(plan->dc, &at);
      if (is_wanted)
        (*mcu[i])[0] = (JCOEF)dc;
      if (is_wanted && plan->wants_ac)
        store_ac(plan->ac, &at, *mcu[i]);
      else
        skip_ac(plan->ac, &at);
    }
    if (UNLIKELY(decoder->is_last) && (at.next - decoder->clean_end) * 8 > (ptrdiff_t)at.count) {
      decoder->is_exhausted = TRUE;
      break;
    }
  }
  decoder->at = at;
}

#define SEGMENT_LOOPS(suffix)                                                                                      \
  static void decode_wanted##suffix(struct huffman_decoder *decoder, j_decompress_ptr cinfo, JBLOCKROW *mcu) {     \
    decode_segment(decoder, cinfo, TRUE, mcu, 1);                                                                  \
  }                                                                                                                \
  static void pass_unwanted##suffix(struct huffman_decoder *decoder, j_decompress_ptr cinfo, unsigned long count) { \
    decode_segment(decoder, cinfo, FALSE, NULL, count);                                                            \
  }

SEGMENT_LOOPS(_anywhere)

/* The loop shifts by amounts that it has just read, which takes one instruction in place of three with BMI2. */
#ifdef __x86_64__
/* Asks the processor itself: the compiler's own question needs a run-time library that not every linker finds. */
static boolean has_bmi2(void) {
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_BMI) && (b & bit_BMI2);
}
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("bmi,bmi2"))), apply_to = function)
SEGMENT_LOOPS(_bmi2)
#pragma clang attribute pop
#else
#pragma GCC push_options
#pragma GCC target("bmi,bmi2")
SEGMENT_LOOPS(_bmi2)
#pragma GCC pop_options
#endif
#else
#define has_bmi2() FALSE
#define decode_wanted_bmi2 decode_wanted_anywhere
#define pass_unwanted_bmi2 pass_unwanted_anywhere
#endif

/* Passes over restart marks: how many of `count` MCUs come before the next. */
static unsigned long until_restart(struct huffman_decoder *decoder, j_decompress_ptr cinfo, unsigned long count) {
  if (cinfo->restart_interval == 0)
    return count;
  if (decoder->restarts_to_go == 0)
    restart(decoder, cinfo);
  if (count > decoder->restarts_to_go)
    count = decoder->restarts_to_go;
  decoder->restarts_to_go -= (unsigned)count;
  return count;
}

/* Decodes the unwanted MCUs that are owed. */
static void catch_up(struct huffman_decoder *decoder, j_decompress_ptr cinfo) {
  while (decoder->owed) {
    unsigned long count = until_restart(decoder, cinfo, decoder->owed);
    if (!decoder->is_exhausted)
      (*decoder->pass_unwanted)(decoder, cinfo, count);
    decoder->owed -= count;
  }
}

/* What libjpeg calls for every MCU in turn, with NULL for rows that are skipped. */
static boolean decode_mcu(j_decompress_ptr cinfo, JBLOCKROW *mcu) {
  struct huffman_decoder *decoder = cinfo->client_data;
  JDIMENSION column = decoder->column++;
  if (decoder->column == decoder->columns)
    decoder->column = 0;
  if (mcu == NULL || column < decoder->first || column > decoder->last) {
    decoder->owed++;
    return TRUE;
  }
  catch_up(decoder, cinfo);
  until_restart(decoder, cinfo, 1);
  if (!decoder->is_exhausted)
    (*decoder->decode_wanted)(decoder, cinfo, mcu);
  return TRUE;
}

/* Whether the codes of a component are known. */
static boolean is_known(const struct huffman_decoder *decoder, j_decompress_ptr cinfo,
                        const jpeg_component_info *info) {
  return is_same(&decoder->dc[info->dc_tbl_no], cinfo->dc_huff_tbl_ptrs[info->dc_tbl_no]) &&
         is_same(&decoder->ac[info->ac_tbl_no].code, cinfo->ac_huff_tbl_ptrs[info->ac_tbl_no]);
}

/* Makes the codes of a scan known. Tables take as long to build as a few KB to decode, so that smaller files
 * with unknown codes are left to libjpeg; but now and then one is learned from, for they may have the same. */
static boolean learn_all(struct huffman_decoder *decoder, j_decompress_ptr cinfo) {
  boolean are_known = TRUE;
  for (int i = 0; i < cinfo->comps_in_scan; i++) {
    const jpeg_component_info *info = cinfo->cur_comp_info[i];
    if (info->dc_tbl_no >= NUM_HUFF_TBLS || info->ac_tbl_no >= NUM_HUFF_TBLS ||
        cinfo->dc_huff_tbl_ptrs[info->dc_tbl_no] == NULL || cinfo->ac_huff_tbl_ptrs[info->ac_tbl_no] == NULL)
      return FALSE;
    are_known = are_known && is_known(decoder, cinfo, info);
  }
  if (are_known)
    return TRUE;
  if (cinfo->src->bytes_in_buffer < decoder->worth_learning) {
    decoder->passed += cinfo->src->bytes_in_buffer;
    if (decoder->passed < PATIENCE * decoder->worth_learning)
      return FALSE;
    decoder->passed = 0;
  }
  for (int i = 0; i < cinfo->comps_in_scan; i++) {
    const jpeg_component_info *info = cinfo->cur_comp_info[i];
    if (!is_known(decoder, cinfo, info) &&
        (!learn(&decoder->dc[info->dc_tbl_no], cinfo->dc_huff_tbl_ptrs[info->dc_tbl_no]) ||
         !learn_ac(&decoder->ac[info->ac_tbl_no], cinfo->ac_huff_tbl_ptrs[info->ac_tbl_no])))
      return FALSE;
  }
  return TRUE;
}

/* One scan of all components, sequential, Huffman-coded, of 8 bits. */
static boolean is_baseline(j_decompress_ptr cinfo) {
  return !cinfo->progressive_mode && !cinfo->arith_code && cinfo->data_precision == 8 && cinfo->Ss == 0 &&
         cinfo->Se == DCTSIZE2 - 1 && !jpeg_has_multiple_scans(cinfo);
}

boolean huffman_take_over(struct huffman_decoder *decoder, j_decompress_ptr cinfo, JDIMENSION left, JDIMENSION width) {
  if (!IS_KNOWN_VERSION || !is_baseline(cinfo) || !learn_all(decoder, cinfo))
    return FALSE;
  decoder->blocks = cinfo->blocks_in_MCU;
  for (int i = 0; i < decoder->blocks; i++) {
    const jpeg_component_info *info = cinfo->cur_comp_info[cinfo->MCU_membership[i]];
    struct block_plan *plan = &decoder->plan[i];
    plan->dc = &decoder->dc[info->dc_tbl_no];
    plan->ac = &decoder->ac[info->ac_tbl_no];
    plan->component = cinfo->MCU_membership[i];
    plan->wants_ac = SCALED_SIZE(info) > 1; /* at 1/8 of the size, a block is a pixel of its DC coefficient */
  }
  int factor = cinfo->num_components == 1 ? 1 : cinfo->max_h_samp_factor;
  JDIMENSION column_width = (JDIMENSION)(SMALLEST_SCALED_SIZE(cinfo) * factor);
  decoder->columns = cinfo->MCUs_per_row;
  decoder->first = left / column_width;
  decoder->last = (left + width - 1) / column_width;
  decoder->column = 0;
  decoder->owed = 0;
  decoder->restarts_to_go = cinfo->restart_interval;
  decoder->next_restart = 0;
  decoder->is_exhausted = FALSE;
  start_segment(decoder);
  if (decoder->decode_wanted == NULL) { /* asked once: a virtual machine may take microseconds to answer */
    boolean is_bmi2 = has_bmi2();
    decoder->decode_wanted = is_bmi2 ? decode_wanted_bmi2 : decode_wanted_anywhere;
    decoder->pass_unwanted = is_bmi2 ? pass_unwanted_bmi2 : pass_unwanted_anywhere;
  }
  cinfo->client_data = decoder;
  cinfo->entropy->decode_mcu = decode_mcu;
  return TRUE;
}

void huffman_finish(struct huffman_decoder *decoder, j_decompress_ptr cinfo) {
  catch_up(decoder, cinfo);
}
