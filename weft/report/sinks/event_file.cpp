#include "weft/report/sinks/event_file.h"

#include <array>
#include <bit>
#include <cstring>
#include <vector>

namespace weft {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1U) != 0 ? (crc >> 1) ^ kPolynomial : crc >> 1;
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

/// TensorFlow's mask, so that a CRC of data with CRCs inside differs from theirs.
uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8U; }

/// Little-endian bytes.
template <class Number>
std::string bytes_of(Number number) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof(Number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(Number));
  return bytes;
}

// Protobuf's encoding (https://protobuf.dev/programming-guides/encoding): a key with field number and wire type, then the
// value.
std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80);
  return bytes + static_cast<char>(number);
}
std::string key(int field, int type) { return varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(type)); }
std::string integer(int field, int64_t value) { return key(field, 0) + varint(static_cast<uint64_t>(value)); }
std::string double_number(int field, double value) { return key(field, 1) + bytes_of(value); }
std::string float_number(int field, double value) { return key(field, 5) + bytes_of(static_cast<float>(value)); }
std::string text_field(int field, std::string_view bytes) { return key(field, 2) + varint(bytes.size()) + std::string(bytes); }
std::string packed(int field, const std::vector<double>& values) {
  std::string bytes;
  for (const double value : values) bytes += bytes_of(value);
  return text_field(field, bytes);
}

std::string event(double time_s, int64_t step, const std::string& what) {
  return framed(double_number(1, time_s) + integer(2, step) + what);
}
std::string summary(double time_s, int64_t step, const std::string& values) {
  return event(time_s, step, text_field(5, values));
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = 0xffffffffU;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xffU] ^ (crc >> 8);
  return crc ^ 0xffffffffU;
}

std::string framed(std::string_view message) {
  const std::string length = bytes_of<uint64_t>(message.size());
  return length + bytes_of(masked_crc(length)) + std::string(message) + bytes_of(masked_crc(message));
}

std::string event_version(double time_s) { return event(time_s, 0, text_field(3, "brain.Event:2")); }

std::string event_restart(double time_s, int64_t step) {
  constexpr int kStart = 1;
  return event(time_s, step, text_field(7, integer(1, kStart)));
}

std::string event_scalars(double time_s, int64_t step, std::string_view prefix, const RecordValues& values) {
  std::string all;
  for (const RecordValue& value : values) {
    all += text_field(1, text_field(1, std::string(prefix) + value.name) + float_number(2, value.value));
  }
  return summary(time_s, step, all);
}

std::string event_text(double time_s, int64_t step, const std::string& tag, const std::string& text) {
  constexpr int kString = 7;                                              // DataType.DT_STRING
  const std::string shape = text_field(2, text_field(2, integer(1, 1)));  // one dimension of size 1
  const std::string tensor = integer(1, kString) + shape + text_field(8, text);
  const std::string metadata = text_field(1, text_field(1, "text"));
  return summary(time_s, step,
                 text_field(1, text_field(1, tag + "/text_summary") + text_field(8, tensor) + text_field(9, metadata)));
}

std::string event_histogram(double time_s, int64_t step, const std::string& tag, const ValueHistogram& histogram) {
  const std::string counts = double_number(1, histogram.min) + double_number(2, histogram.max) +
                             double_number(3, histogram.count) + double_number(4, histogram.sum) +
                             double_number(5, histogram.squares) + packed(6, histogram.limits) + packed(7, histogram.counts);
  return summary(time_s, step, text_field(1, text_field(1, tag) + text_field(5, counts)));
}

}  // namespace weft
