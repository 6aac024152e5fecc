#include "weft/checkpoint/other_file.h"

#include <algorithm>
#include <cctype>

namespace weft {
namespace {

using std::string_view_literals::operator""sv;

struct KnownFile {
  std::string_view magic;
  std::string_view what;
};

constexpr std::string_view kUnpack = "; unpack it and name what was in it";

// A safetensors file begins with a length whose upper bytes are zero: none of these is one.
constexpr KnownFile kKnownFiles[] = {
    {"version https://git-lfs.github.com/spec/"sv, "a pointer of Git LFS, not the file itself; fetch it with `git lfs pull`"sv},
    {"version https://hawser.github.com/spec/"sv, "a pointer of Git LFS, not the file itself; fetch it with `git lfs pull`"sv},
    // Protocol 2, then torch.save()'s magic number 0x1950a86a20f9469cfc6c.
    {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv,
     "what torch.save() wrote before PyTorch 1.6; load it with torch.load() and save its state dict again"sv},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file, as Keras writes them; save the weights as safetensors"sv},
    {"\x93NUMPY"sv, "an array of NumPy; save the weights as safetensors"sv},
    {"GGUF"sv, "a GGUF file of llama.cpp; name the safetensors files that it was made of"sv},
    {"lmgg"sv, "a GGML file of llama.cpp; name the safetensors files that it was made of"sv},
    {"tjgg"sv, "a GGJT file of llama.cpp; name the safetensors files that it was made of"sv},
    {"\x1f\x8b"sv, "compressed with gzip"sv},
    {"BZh"sv, "compressed with bzip2"sv},
    {"\xfd"
     "7zXZ\0"sv,
     "compressed with xz"sv},
    {"\x28\xb5\x2f\xfd"sv, "compressed with zstd"sv},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7-Zip archive"sv},
    {"Rar!\x1a\x07"sv, "a RAR archive"sv},
};

bool begins_without_case(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() && std::equal(lower.begin(), lower.end(), text.begin(), [](char a, char b) {
           return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
         });
}

std::string_view without_blanks(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

bool is_text(std::string_view head) {
  return std::all_of(head.begin(), head.end(), [](char c) { return (c >= 32 && c < 127) || (c >= '\t' && c <= '\r'); });
}

/// A zip archive names its first file after a header of 30 bytes.
std::string what_zip_is(std::string_view head) {
  constexpr size_t kNameLength = 26, kName = 30;
  if (head.size() < kName) return "the beginning of a zip archive; get it again";
  const size_t length =
      static_cast<unsigned char>(head[kNameLength]) + 256U * static_cast<unsigned char>(head[kNameLength + 1]);
  if (head.substr(kName, length).ends_with(".npy")) return "an archive of NumPy (.npz); save the weights as safetensors";
  return "";
}

}  // namespace

std::string what_file_is(std::string_view head) {
  if (head.empty()) return "empty; get it again";
  for (const auto& [magic, what] : kKnownFiles) {
    if (!head.starts_with(magic)) continue;
    const bool says_what_to_do = what.find(';') != std::string_view::npos;
    return std::string(what) + std::string(says_what_to_do ? "" : kUnpack);
  }
  if (head.starts_with("PK\3\4")) return what_zip_is(head);
  if (head.size() > 1 && head[0] == '\x80' && head[1] >= 1 && head[1] <= 5) {
    return "a pickle of Python; load it there and save its state dict with torch.save(), or as safetensors";
  }
  constexpr size_t kTarMagic = 257;
  if (head.size() > kTarMagic + 5 && head.substr(kTarMagic, 5) == "ustar") return "a tar archive" + std::string(kUnpack);
  const std::string_view text = without_blanks(head);
  if (begins_without_case(text, "<!doctype html") || begins_without_case(text, "<html")) {
    return "an HTML page, as servers send where a file is missing or needs a login; get it again";
  }
  constexpr size_t kEnough = 8;  // bytes, to tell text in any language from numbers
  if (!is_text(head.substr(0, kEnough))) return "";
  if (text.starts_with("<")) return "an XML text, as servers send in place of a file; get it again";
  if (text.starts_with("{") || text.starts_with("[")) return "a JSON text, not weights; name the file that holds them";
  return is_text(head) ? "a text, not weights; name the file that holds them" : "";
}

}  // namespace weft
