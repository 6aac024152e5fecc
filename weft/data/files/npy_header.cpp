#include "weft/data/files/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "weft/base/error.h"

namespace weft {
namespace {

/// Returns the text after `'key':`, up to the next comma outside brackets.
std::string_view value_in(std::string_view header, std::string_view key) {
  const size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) return {};
  std::string_view rest = header.substr(at + key.size() + 3);
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  if (!rest.starts_with('(')) return rest.substr(0, std::min(rest.find_first_of(",}"), rest.size()));
  return rest.substr(0, rest.find(')') + 1);  // empty without a bracket
}

/// Reads "(3, 4)", "(3,)" or "()". Returns false for any other text, and sizes that no file has.
bool read_shape(std::string_view text, std::vector<int64_t>& shape) {
  constexpr int64_t kLargest = int64_t{1} << 56;
  if (text.size() < 2 || !text.starts_with('(') || !text.ends_with(')')) return false;
  text = text.substr(1, text.size() - 2);
  int64_t total = 1;
  while (!text.empty()) {
    int64_t size = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0 || size > kLargest / std::max<int64_t>(1, total)) return false;
    shape.push_back(size);
    total *= size;
    text.remove_prefix(static_cast<size_t>(stop - text.data()));
    if (text.empty()) return shape.size() > 1;  // of one size, the comma is needed
    if (!text.starts_with(',')) return false;
    text.remove_prefix(std::min(text.find_first_not_of(' ', 1), text.size()));
  }
  return true;
}

}  // namespace

bool is_npy(std::string_view head) { return head.starts_with("\x93NUMPY"); }

NpyHeader npy_header(const std::string& path, std::string_view head) {
  const auto fail = [&](const std::string& what) { throw InputError(fmt::format("{}: a NumPy array {}", path, what)); };
  constexpr size_t kVersion = 6, kLength = 8;
  constexpr int kNewest = 3;
  const int version = head.size() > kVersion ? static_cast<unsigned char>(head[kVersion]) : 1;
  if (version < 1 || version > kNewest) fail(fmt::format("of version {}, weft reads 1 to {}; save it again", version, kNewest));
  const size_t begin = kLength + (version == 1 ? 2 : 4);
  if (head.size() < begin) fail("that is truncated; get it again");
  uint32_t length = 0;
  std::memcpy(&length, head.data() + kLength, begin - kLength);
  const std::string_view text = head.substr(begin, length);
  NpyHeader header{.type = std::string(value_in(text, "descr")),
                   .shape = {},
                   .is_fortran = value_in(text, "fortran_order") == "True",
                   .offset = static_cast<int64_t>(begin) + length};
  if (text.size() < length || header.type.empty() || !read_shape(value_in(text, "shape"), header.shape)) {
    fail("whose header is damaged, or too long for plain numbers; save it again");
  }
  return header;
}

}  // namespace weft
