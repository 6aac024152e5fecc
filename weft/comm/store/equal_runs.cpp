#include "weft/comm/store/equal_runs.h"

#include <algorithm>

#include "weft/comm/store/message.h"

namespace weft {
namespace {

void put_number(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

uint64_t take_number(message::Reader& in) {
  uint64_t value = 0;
  for (int shift = 0; shift < 35; shift += 7) {  // enough for 32 bits
    const uint8_t byte = in.u8();
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  throw message::Malformed();
}

}  // namespace

std::string write_runs(const std::map<uint32_t, std::string>& values) {
  std::string out;
  std::string_view before;
  for (auto begin = values.begin(); begin != values.end();) {
    const std::string_view value = begin->second;
    const auto end = std::find_if(begin, values.end(), [value](const auto& entry) { return entry.second != value; });
    const auto shared = std::mismatch(value.begin(), value.end(), before.begin(), before.end()).first - value.begin();
    put_number(out, static_cast<uint64_t>(std::distance(begin, end)));
    put_number(out, static_cast<uint64_t>(shared));
    put_number(out, value.size() - static_cast<size_t>(shared));
    out += value.substr(static_cast<size_t>(shared));
    before = value;
    begin = end;
  }
  return out;
}

std::vector<std::string> read_runs(std::string_view text, size_t size) {
  message::Reader in(text);
  std::vector<std::string> values;
  std::string value;
  while (values.size() < size) {
    const uint64_t count = take_number(in), shared = take_number(in), others = take_number(in);
    if (count < 1 || count > size - values.size() || shared > value.size()) throw message::Malformed();
    value.resize(shared);
    value += in.take(others);
    values.insert(values.end(), count, value);
  }
  in.end();
  return values;
}

}  // namespace weft
