#include "weft/data/tokens/megatron_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "weft/base/error.h"
#include "weft/base/input_file.h"

namespace weft {
namespace {

using std::string_view_literals::operator""sv;

constexpr auto kMagic = "MMIDIDX\0\0"sv;
constexpr int64_t kVersionAt = 9, kCodeAt = 17, kSequencesAt = 18, kMarksAt = 26, kHeader = 34;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw InputError(fmt::format("{}: Megatron's index {}; preprocess the text again", path, what));
}

template <class Number>
std::vector<Number> numbers_at(const std::string& path, const InputFile& file, int64_t offset, int64_t count) {
  std::vector<Number> numbers(static_cast<size_t>(count));
  const auto bytes = static_cast<int64_t>(numbers.size() * sizeof(Number));
  const int64_t got = read_input(file, offset, numbers.data(), bytes);
  if (got < 0) throw InputError(fmt::format("{}: reading failed: {}", path, std::system_category().message(errno)));
  if (got < bytes) fail(path, "is truncated");
  return numbers;
}

TokenType type_of(const std::string& path, uint8_t code) {
  constexpr uint8_t kByte = 1, kShort = 3, kInt = 4, kUnsignedShort = 8;  // signed codes: never negative there
  if (code == kByte) return TokenType::u8;
  if (code == kShort || code == kUnsignedShort) return TokenType::u16;
  if (code == kInt) return TokenType::u32;
  const char* name = code == 2 ? "int8" : code == 5 ? "int64" : code == 6 || code == 7 ? "floating point" : "of unknown type";
  throw InputError(fmt::format("{}: Megatron's index says that ids are {} (code {}); write them as uint16 or int32", path, name,
                               static_cast<int>(code)));
}

int64_t width_of(TokenType type) { return type == TokenType::u8 ? 1 : type == TokenType::u16 ? 2 : 4; }

InputFile opened(const std::string& path) {
  InputFile file = open_input(path);
  if (!file.reason.empty()) throw InputError(fmt::format("{}: cannot open it: {}; check data.path", path, file.reason));
  return file;
}

MegatronIndex header_of(const std::string& path, const InputFile& file) {
  const std::vector<char> header = numbers_at<char>(path, file, 0, kHeader);
  const auto number = [&](int64_t at) {
    uint64_t value = 0;
    std::memcpy(&value, header.data() + at, sizeof value);
    return value;
  };
  if (std::string_view(header.data(), header.size()).substr(0, kMagic.size()) != kMagic)
    fail(path, "does not begin with Megatron's signature");
  if (number(kVersionAt) != 1) fail(path, fmt::format("has version {}, weft reads 1", number(kVersionAt)));
  const auto most = static_cast<uint64_t>(file.bytes) / sizeof(int64_t);
  if (number(kSequencesAt) > most || number(kMarksAt) > most) fail(path, "is truncated");
  MegatronIndex index{.type = type_of(path, static_cast<uint8_t>(header[kCodeAt])),
                      .sequences = static_cast<int64_t>(number(kSequencesAt)),
                      .marks = static_cast<int64_t>(number(kMarksAt))};
  if (index.sequences * 12 + index.marks * 8 > file.bytes - kHeader) fail(path, "is truncated");
  return index;
}

}  // namespace

std::string megatron_index_of(const std::string& bin) {
  std::filesystem::path path(bin);
  if (path.extension() != ".bin") return "";
  path.replace_extension(".idx");
  const InputFile file = open_input(path.string());
  char magic[kMagic.size()] = {};
  if (!file.reason.empty()) return "";
  const std::string_view begin(magic, static_cast<size_t>(std::max<int64_t>(0, read_input(file, 0, magic, sizeof magic))));
  if (!kMagic.starts_with(begin)) return "";
  if (file.bytes < kHeader) fail(path.string(), "is truncated");  // otherwise 32-bit ids would be read as 16-bit
  return path.string();
}

MegatronIndex read_megatron_index(const std::string& path) {
  const InputFile file = opened(path);
  MegatronIndex index = header_of(path, file);
  if (index.sequences == 0) return index;
  const int64_t last = index.sequences - 1, begins = kHeader + index.sequences * 4;
  const int64_t length = numbers_at<int32_t>(path, file, kHeader + last * 4, 1)[0];
  const int64_t begin = numbers_at<int64_t>(path, file, begins + last * 8, 1)[0];
  constexpr int64_t kLargest = int64_t{1} << 56;
  if (length < 0 || begin < 0 || begin > kLargest) fail(path, "has an invalid offset or length for its last sequence");
  index.bytes = begin + length * width_of(index.type);
  return index;
}

std::vector<int64_t> megatron_documents(const std::string& path) {
  const InputFile file = opened(path);
  const MegatronIndex index = header_of(path, file);
  const std::vector<int32_t> lengths = numbers_at<int32_t>(path, file, kHeader, index.sequences);
  const std::vector<int64_t> begins = numbers_at<int64_t>(path, file, kHeader + index.sequences * 4, index.sequences);
  const std::vector<int64_t> marks = numbers_at<int64_t>(path, file, kHeader + index.sequences * 12, index.marks);
  const int64_t width = width_of(index.type);
  int64_t end = 0;  // end in bytes of the sequences so far
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || begins[i] != end)
      fail(path, fmt::format("has a sequence {} that does not directly follow the previous one", i));
    end += lengths[i] * width;
  }
  std::vector<int64_t> starts;
  starts.reserve(marks.size());
  for (const int64_t mark : marks) {
    if (mark == index.sequences) continue;  // the end
    if (mark < 0 || mark > index.sequences)
      fail(path, fmt::format("has a document that begins with sequence {} of {}", mark, index.sequences));
    const int64_t start = begins[static_cast<size_t>(mark)] / width;
    if (!starts.empty() && start < starts.back()) fail(path, "has documents out of order");
    starts.push_back(start);
  }
  return starts;
}

}  // namespace weft
