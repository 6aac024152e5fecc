#include "weft/base/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <system_error>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/utf8.h"

namespace weft {
namespace {

using std::string_view_literals::operator""sv;

constexpr auto kUnpack = "unpack it"sv, kIsImage = "read images with data.name = \"image-folder\""sv,
               kGetIt = "get the file itself"sv;

struct Mark {
  size_t at;
  std::string_view bytes;
  FileKind kind;
};

constexpr FileKind kPointer = {"a Git LFS pointer, not the file itself", "fetch it with `git lfs pull`"};
constexpr FileKind kPickle = {"a Python pickle", "write its content in another format"};
constexpr FileKind kWideText = {"text in UTF-16", "convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)", true};
constexpr FileKind kTiff = {"a TIFF image", kIsImage};

constexpr Mark kMarks[] = {
    {0, "version https://git-lfs.github.com/spec/"sv, kPointer},
    {0, "version https://hawser.github.com/spec/"sv, kPointer},
    {0, "PK\3\4"sv, {"a zip archive, like .npz and PyTorch's .pt", kUnpack}},
    {0, "PK\5\6"sv, {"an empty zip archive", kGetIt}},
    {0, "\xfd\x37zXZ\0"sv, {"compressed with xz", kUnpack}},
    {0, "\x28\xb5\x2f\xfd"sv, {"compressed with zstd", kUnpack}},
    {0, "\x04\x22\x4d\x18"sv, {"compressed with lz4", kUnpack}},
    {0, "7z\xbc\xaf\x27\x1c"sv, {"a 7-Zip archive", kUnpack}},
    {0, "Rar!\x1a\x07"sv, {"a RAR archive", kUnpack}},
    {257, "ustar"sv, {kTarArchive, kUnpack}},
    {0, "PAR1"sv, {"Parquet", "read it with data.name = \"parquet\""}},
    {0, "ARROW1\0\0"sv, {"Arrow's format (Feather)", "write it as Parquet"}},
    {0, "\x89HDF\r\n\x1a\n"sv, {"HDF5", "write its content in another format"}},
    {0, "SQLite format 3\0"sv, {"an SQLite database", "write its content in another format"}},
    {0, "\x93NUMPY"sv, {kNumpyArray, "read arrays of ids with data.name = \"tokens\""}},
    {0, "MMIDIDX\0\0"sv, {"Megatron's index of a .bin file", "name the .bin file"}},
    {0, "TNTIDX\0\0"sv, {"an index in Megatron's older format", "preprocess the text again with --dataset-impl mmap"}},
    {0, "\x80\2\x8a\x0a\x6c\xfc\x9c\x46"sv, {"a checkpoint of PyTorch before 1.6", kGetIt}},
    {0, "\x80\2}q"sv, kPickle},
    {0, "\x80\3}q"sv, kPickle},
    {0, "\x80\2]q"sv, kPickle},
    {0, "\x80\3]q"sv, kPickle},
    {0, "\x80\2cnumpy"sv, kPickle},
    {0, "\x80\3cnumpy"sv, kPickle},
    {0, "GGUF"sv, {"weights of llama.cpp (GGUF)", kGetIt}},
    {0, "lmgg"sv, {"weights of llama.cpp before GGUF", kGetIt}},
    {0, "tjgg"sv, {"weights of llama.cpp before GGUF", kGetIt}},
    {0, "\xff\xd8\xff"sv, {"a JPEG image", kIsImage}},
    {0, "\x89PNG\r\n\x1a\n"sv, {"a PNG image", kIsImage}},
    {0, "GIF8"sv, {"a GIF image", kIsImage}},
    {8, "WEBP"sv, {"a WebP image", kIsImage}},
    {4, "ftypavif"sv, {"an AVIF image", kIsImage}},
    {4, "ftypheic"sv, {"a HEIC image", kIsImage}},
    {0, "II*\0"sv, kTiff},
    {0, "MM\0*"sv, kTiff},
    {0, "%PDF-"sv, {"a PDF", "write its text to a file"}},
    {0,
     "\x7f"
     "ELF"sv,
     {"a program", kGetIt}},
};

uint32_t number_at(std::string_view head, size_t at) {
  uint32_t number = 0;
  if (head.size() >= at + sizeof number) std::memcpy(&number, head.data() + at, sizeof number);
  return number;
}

bool has_at(std::string_view head, size_t at, std::string_view bytes) {
  return head.size() >= at && head.substr(at).starts_with(bytes);
}

/// Kinds that need more than a fixed byte string.
FileKind computed_kind(std::string_view head) {
  if (head.starts_with("\x1f\x8b\x08") && head.size() > 3 && (head[3] & 0xe0) == 0) return {"compressed with gzip", kUnpack};
  if (head.starts_with("BZh") && has_at(head, 4, "1AY&SY")) return {"compressed with bzip2", kUnpack};
  const bool has_frame = has_at(head, 0, "\x80\4\x95") || has_at(head, 0, "\x80\5\x95");
  if (has_frame && has_at(head, 7, "\0\0\0\0"sv)) return kPickle;
  constexpr uint32_t kLargestHeader = 100'000'000;
  const uint32_t header = number_at(head, 0);
  if (header > 0 && header <= kLargestHeader && has_at(head, 4, "\0\0\0\0{"sv) &&
      (has_at(head, 9, "\"") || has_at(head, 9, "}"))) {
    return {"safetensors, which holds weights", "read weights with model.weights"};
  }
  constexpr uint32_t kBitmapHeaders[] = {12, 40, 52, 56, 64, 108, 124};
  const bool is_bitmap = head.starts_with("BM") && has_at(head, 6, "\0\0\0\0"sv);
  if (is_bitmap && std::count(std::begin(kBitmapHeaders), std::end(kBitmapHeaders), number_at(head, 14)) > 0) {
    return {"a BMP image", kIsImage};
  }
  constexpr uint32_t kNewestVersion = 16;  // far above any llm.c header version
  if (number_at(head, 4) == 0 || number_at(head, 4) > kNewestVersion) return {};
  if (header == 20240326) return {"weights of llm.c", kGetIt};
  if (header == 20240327) return {"a checkpoint of llm.c", kGetIt};
  if (header == 20240522) return {"an llm.c multiple-choice file", kGetIt};
  return {};
}

std::string_view without_blanks(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

bool begins_like(std::string_view text, std::string_view lower) {
  const auto same = [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); };
  return text.size() >= lower.size() && std::equal(lower.begin(), lower.end(), text.begin(), same);
}

/// Drops the last character, which may be cut off.
std::string_view whole_characters(std::string_view head) {
  constexpr size_t kMostContinued = 3;
  size_t end = head.size();
  while (end > 1 && head.size() - end < kMostContinued && continues_character(head[end - 1])) --end;
  return head.substr(0, end - 1);
}

bool is_text(std::string_view head) {
  constexpr size_t kLeast = 32;
  if (head.size() < kLeast) return false;
  std::string text(head.size() == kHeadBytes ? whole_characters(head) : head);
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  std::replace_if(text.begin(), text.end(), is_space, ' ');
  if (text.find_first_not_of(' ') == std::string::npos) return false;
  std::replace(text.begin(), text.end(), '\\', '/');  // so that only escaped bytes show a backslash
  return printable(text).find("\\x") == std::string::npos;
}

/// Detects UTF-16 by its byte-order mark and two plausible characters.
bool is_wide_text(std::string_view head) {
  constexpr size_t kNeeded = 6;
  if (head.size() < kNeeded) return false;
  const auto is_character = [](char c) {
    return std::isprint(static_cast<unsigned char>(c)) != 0 || std::isspace(static_cast<unsigned char>(c)) != 0;
  };
  const bool is_little_endian =
      head.starts_with("\xff\xfe") && is_character(head[2]) && head[3] == 0 && is_character(head[4]) && head[5] == 0;
  const bool is_big_endian =
      head.starts_with("\xfe\xff") && head[2] == 0 && is_character(head[3]) && head[4] == 0 && is_character(head[5]);
  return is_little_endian || is_big_endian;
}

}  // namespace

FileKind file_kind(std::string_view head) {
  head = head.substr(0, kHeadBytes);
  for (const Mark& mark : kMarks) {
    if (has_at(head, mark.at, mark.bytes)) return mark.kind;
  }
  if (const FileKind kind = computed_kind(head)) return kind;
  const std::string_view text = without_blanks(head);
  if (begins_like(text, "<!doctype html") || begins_like(text, "<html")) {
    return {"an HTML page, as servers send if a file is missing or needs a login", kGetIt, true};
  }
  if (begins_like(text, "<?xml") || begins_like(text, "<error>")) {
    return {"XML, as servers send instead of a file", kGetIt, true};
  }
  if (is_wide_text(head)) return kWideText;
  if (is_text(head)) return {kPlainText, "read text with data.name = \"text\"", true};
  return {};
}

std::string read_head(const std::string& path, const InputFile& file) {
  std::string head(static_cast<size_t>(std::min<int64_t>(file.bytes, kHeadBytes)), '\0');
  const int64_t got = read_input(file, 0, head.data(), static_cast<int64_t>(head.size()));
  if (got < 0) throw InputError(fmt::format("{}: reading failed: {}", path, std::system_category().message(errno)));
  head.resize(static_cast<size_t>(got));
  return head;
}

}  // namespace weft
