/* libjpeg-turbo as Forebay uses it: read a header, then decode a rectangle of the image.
 *
 * libjpeg reports errors by calling a function that must not return, so every entry sets a place to
 * jump back to. Nothing here is called from libjpeg but through that. */

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>
#include <jerror.h>

#include "huffman.h"

enum status { STATUS_OK, STATUS_DAMAGED, STATUS_ENDS_EARLY };

struct forebay_jpeg {
  struct jpeg_decompress_struct cinfo;
  struct jpeg_error_mgr errors;
  struct jpeg_source_mgr source;
  jmp_buf on_error;
  size_t header_bytes; /* what the header took of the file, while it has been read and nothing more */
  char message[JMSG_LENGTH_MAX];
  struct huffman_decoder huffman;
};

struct forebay_jpeg_header {
  uint32_t width, height, precision;
  uint32_t column; /* a rectangle starts at a multiple of this many pixels, at full size */
  uint32_t is_cmyk;
};

struct forebay_jpeg_rect {
  uint32_t x, y, width, height;
};

static struct forebay_jpeg *owner(j_common_ptr cinfo) {
  return (struct forebay_jpeg *)cinfo; /* cinfo is its first member */
}

static void on_error(j_common_ptr cinfo) {
  struct forebay_jpeg *jpeg = owner(cinfo);
  (*cinfo->err->format_message)(cinfo, jpeg->message);
  longjmp(jpeg->on_error, cinfo->err->msg_code == JWRN_JPEG_EOF ? STATUS_ENDS_EARLY : STATUS_DAMAGED);
}

static void refuse(struct forebay_jpeg *jpeg, const char *message) {
  snprintf(jpeg->message, sizeof jpeg->message, "%s", message);
  longjmp(jpeg->on_error, STATUS_DAMAGED);
}

/* Warnings pass: a damaged picture is still a picture. */
static void on_message(j_common_ptr cinfo, int level) {
  (void)cinfo;
  (void)level;
}

static void do_nothing(j_decompress_ptr cinfo) {
  (void)cinfo;
}

/* The whole file is in memory, so that a wish for more means that it is cut short. */
static boolean on_end(j_decompress_ptr cinfo) {
  ERREXIT(cinfo, JWRN_JPEG_EOF);
  return FALSE;
}

static void skip_bytes(j_decompress_ptr cinfo, long count) {
  if (count <= 0)
    return;
  if ((size_t)count > cinfo->src->bytes_in_buffer)
    on_end(cinfo);
  cinfo->src->next_input_byte += count;
  cinfo->src->bytes_in_buffer -= (size_t)count;
}

struct forebay_jpeg *forebay_jpeg_new(size_t worth_learning) {
  struct forebay_jpeg *jpeg = calloc(1, sizeof *jpeg);
  if (jpeg)
    jpeg->huffman.worth_learning = worth_learning;
  return jpeg;
}

void forebay_jpeg_free(struct forebay_jpeg *jpeg) {
  jpeg_destroy_decompress(&jpeg->cinfo); /* harmless before the first image, and after an error */
  free(jpeg);
}

const char *forebay_jpeg_message(const struct forebay_jpeg *jpeg) {
  return jpeg->message;
}

/* Reads the header from the start. libjpeg keeps tables from one image to the next, for files that come
 * without; a fresh object, a microsecond's work, keeps every file to its own. */
static void read_header(struct forebay_jpeg *jpeg, const uint8_t *bytes, size_t length) {
  jpeg_destroy_decompress(&jpeg->cinfo);
  jpeg->cinfo.err = jpeg_std_error(&jpeg->errors);
  jpeg->errors.error_exit = on_error;
  jpeg->errors.emit_message = on_message;
  jpeg_create_decompress(&jpeg->cinfo);
  jpeg->source.init_source = do_nothing;
  jpeg->source.fill_input_buffer = on_end;
  jpeg->source.skip_input_data = skip_bytes;
  jpeg->source.resync_to_restart = jpeg_resync_to_restart;
  jpeg->source.term_source = do_nothing;
  jpeg->source.next_input_byte = bytes;
  jpeg->source.bytes_in_buffer = length;
  jpeg->cinfo.src = &jpeg->source;
  jpeg_read_header(&jpeg->cinfo, TRUE);
  if (jpeg->cinfo.jpeg_color_space == JCS_UNKNOWN)
    refuse(jpeg, "could not determine colorspace of JPEG image");
  jpeg->header_bytes = (size_t)(jpeg->source.next_input_byte - bytes);
}

static boolean is_cmyk(j_decompress_ptr cinfo) {
  return cinfo->jpeg_color_space == JCS_CMYK || cinfo->jpeg_color_space == JCS_YCCK;
}

int forebay_jpeg_header(struct forebay_jpeg *jpeg, const uint8_t *bytes, size_t length,
                        struct forebay_jpeg_header *header) {
  j_decompress_ptr cinfo = &jpeg->cinfo;
  jpeg->header_bytes = 0;
  int status = setjmp(jpeg->on_error);
  if (status != STATUS_OK)
    return status;
  read_header(jpeg, bytes, length);
  header->width = cinfo->image_width;
  header->height = cinfo->image_height;
  header->precision = (uint32_t)cinfo->data_precision;
  header->column = DCTSIZE * (cinfo->num_components == 1 ? 1 : (uint32_t)cinfo->max_h_samp_factor);
  header->is_cmyk = is_cmyk(cinfo);
  return STATUS_OK;
}

int forebay_jpeg_decode(struct forebay_jpeg *jpeg, const uint8_t *bytes, size_t length, int has_header,
                        struct forebay_jpeg_rect rect, uint32_t denominator, uint8_t *pixels) {
  j_decompress_ptr cinfo = &jpeg->cinfo;
  int status = setjmp(jpeg->on_error);
  if (status != STATUS_OK) {
    jpeg->header_bytes = 0;
    return status;
  }
  if (has_header && jpeg->header_bytes) {
    jpeg->source.next_input_byte = bytes + jpeg->header_bytes;
    jpeg->source.bytes_in_buffer = length - jpeg->header_bytes;
  } else {
    read_header(jpeg, bytes, length);
  }
  jpeg->header_bytes = 0;
  cinfo->out_color_space = is_cmyk(cinfo) ? JCS_CMYK : JCS_EXT_RGBX;
  cinfo->dct_method = JDCT_ISLOW;
  cinfo->do_fancy_upsampling = TRUE;
  cinfo->scale_num = 1;
  cinfo->scale_denom = denominator;
  jpeg_start_decompress(cinfo);
  JDIMENSION left = rect.x, width = rect.width;
  boolean is_ours = huffman_take_over(&jpeg->huffman, cinfo, left, width);
  if (left != 0 || width != cinfo->output_width)
    jpeg_crop_scanline(cinfo, &left, &width);
  /* Checked here, for the caller's buffer depends on it. */
  if (left != rect.x || width != rect.width || width != cinfo->output_width || cinfo->output_components != 4 ||
      rect.y >= cinfo->output_height || rect.height > cinfo->output_height - rect.y)
    ERREXIT(cinfo, JERR_BAD_CROP_SPEC);
  if (rect.y > 0)
    jpeg_skip_scanlines(cinfo, rect.y);
  JDIMENSION bottom = rect.y + rect.height;
  size_t stride = (size_t)width * 4;
  while (cinfo->output_scanline < bottom) {
    JSAMPROW rows[16];
    JDIMENSION done = cinfo->output_scanline - rect.y, count = bottom - cinfo->output_scanline;
    if (count > 16)
      count = 16;
    for (JDIMENSION i = 0; i < count; i++)
      rows[i] = pixels + (done + i) * stride;
    if (jpeg_read_scanlines(cinfo, rows, count) == 0)
      ERREXIT(cinfo, JERR_BAD_CROP_SPEC);
  }
  if (bottom == cinfo->output_height) {
    if (is_ours)
      huffman_finish(&jpeg->huffman, cinfo);
    jpeg_finish_decompress(cinfo);
  } else {
    jpeg_abort_decompress(cinfo);
  }
  return STATUS_OK;
}
