#include "weft/base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "weft/base/utf8.h"

namespace weft {
namespace {

/// Returns whether a terminal acts on the character instead of showing it.
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
  while (head > 0 && continues_character(whole[head])) --head;
  while (tail < whole.size() && continues_character(whole[tail])) ++tail;
  return fmt::format("{}[...{} bytes...]{}", whole.substr(0, head), tail - head, whole.substr(tail));
}

}  // namespace weft
