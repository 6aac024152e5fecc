#include "weft/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace weft {
namespace {

struct Character {
  uint32_t code = 0;
  size_t bytes = 0;  ///< 0: no UTF-8
};

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u; }

/// The first character of a text that is not empty. Longer forms than need be, surrogates and what lies above U+10FFFF are no
/// UTF-8.
Character first_character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if (!continues(text[i])) return {};
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  const uint32_t least = bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0x80;
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < least || code > 0x10FFFF || surrogate) return {};
  return {code, bytes};
}

/// Whether a terminal does something with it instead of showing it.
bool is_command(uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return true;
  if (code == 0x061C || code == 0xFEFF) return true;
  return (code >= 0x200B && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F);
}

void escape(uint32_t code, std::string& out) {
  if (code == '\n') {
    out += "\\n";
  } else if (code == '\r') {
    out += "\\r";
  } else if (code == '\t') {
    out += "\\t";
  } else if (code < 0x80) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", code);
  } else {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
  }
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character next = first_character(text);
    if (next.bytes == 0) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(text[0])));
    } else if (is_command(next.code)) {
      escape(next.code, out);
    } else {
      out += text.substr(0, next.bytes);
    }
    text.remove_prefix(std::max<size_t>(next.bytes, 1));
  }
  return out;
}

std::string shortened(std::string_view text, size_t most) {
  const std::string whole = printable(text);
  if (whole.size() <= most) return whole;
  size_t head = most / 2, tail = whole.size() - (most - head);
  while (head > 0 && continues(whole[head])) --head;
  while (tail < whole.size() && continues(whole[tail])) ++tail;
  return fmt::format("{}[...{} bytes...]{}", whole.substr(0, head), tail - head, whole.substr(tail));
}

}  // namespace weft
