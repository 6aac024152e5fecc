// Messages between a store and its clients: frames of a length, a request number repeated in the answer, a kind, and a body.
//
// Numbers are little-endian. Frame: bytes after this number (u32), the request's number (u32), kind or status (u8), body. A
// text is its length (u32) and bytes. docs/launching.md describes how a connection begins (proof.h).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft::message {

/// Requests, with their bodies; after `->` the answer's body.
enum class Request : uint8_t {
  set = 1,      ///< key, value ->
  await,        ///< milliseconds (u64), key that also ends the wait (or empty), count (u32), keys -> values, or that key's
  gather,       ///< milliseconds (u64), key as above, name, rank (u32), size (u32), value -> all values (equal_runs.h)
  missing,      ///< name -> missing ranks: their number (u32), the first of them (u32 each)
  add,          ///< key, amount (u64) -> sum (u64)
  check,        ///< count (u32), keys -> 1 or 0 (u32)
  remove,       ///< key -> whether it was there (u32)
  compare_set,  ///< key, expected, desired -> value
  append,       ///< key, value ->
  set_all,      ///< count (u32), keys and values in turn ->
  count,        ///< -> number of keys (u64)
  address       ///< -> the store's address that other hosts have used, or an empty text
};

enum class Status : uint8_t {
  good,
  instead,   ///< the key that also ends the wait has arrived: its value
  passed,    ///< the time has passed; for `gather`, with the answer of `missing`
  mismatch,  ///< another rank gave a different size: that rank (u32), its size (u32)
};

inline constexpr size_t kHeaderBytes = 9;
inline constexpr size_t kMostRequestBytes = size_t{64} << 20;  ///< in a frame, not counting its length field
inline constexpr size_t kMostAnswerBytes = size_t{1} << 30;
inline constexpr size_t kMostMissing = 16;  ///< missing ranks named in an answer

/// Thrown for messages that violate the format above.
class Malformed : public std::runtime_error {
 public:
  Malformed() : std::runtime_error("a malformed message") {}
};

class Writer {
 public:
  Writer& u32(uint32_t value) { return number(value, 4); }
  Writer& u64(uint64_t value) { return number(value, 8); }
  Writer& text(std::string_view text) {
    u32(static_cast<uint32_t>(text.size()));
    bytes_ += text;
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  Writer& number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  std::string bytes_;
};

/// Throws Malformed if the bytes end too early. Texts are views of the bytes.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  uint8_t u8() { return static_cast<uint8_t>(number(1)); }
  std::string_view text() { return take(u32()); }
  std::string_view take(size_t bytes) {
    if (bytes > rest_.size()) throw Malformed();
    const std::string_view result = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return result;
  }
  std::string own_text() { return std::string(text()); }
  bool at_end() const { return rest_.empty(); }
  void end() const {
    if (!at_end()) throw Malformed();
  }

 private:
  uint64_t number(int bytes) {
    uint64_t value = 0;
    const std::string_view text = take(static_cast<size_t>(bytes));
    for (int i = 0; i < bytes; ++i) value |= uint64_t{static_cast<uint8_t>(text[static_cast<size_t>(i)])} << (8 * i);
    return value;
  }
  std::string_view rest_;
};

/// Returns the header of a frame with a body of `body_bytes`.
inline std::string header(uint32_t number, uint8_t kind, size_t body_bytes) {
  Writer writer;
  writer.u32(static_cast<uint32_t>(body_bytes + kHeaderBytes - 4)).u32(number);
  return writer.take() + static_cast<char>(kind);
}

}  // namespace weft::message
