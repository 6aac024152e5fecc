#include "weft/checkpoint/other_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

/// What to do about a kind of file that holds something else, or weights in another form.
struct Advice {
  std::string_view what, advice;
};

constexpr std::string_view kSaveAgain = "load it with torch.load() and save its state dict again";
constexpr Advice kAdvice[] = {{"a checkpoint of PyTorch", kSaveAgain},
                              {"a pickle", "load it there and save its state dict with torch.save(), or as safetensors"},
                              {"HDF5", "save the weights as safetensors"},
                              {"an array of NumPy", "save the weights as safetensors"},
                              {"weights of llama.cpp", "name the safetensors files that it was made of"},
                              {"an HTML page", "get it again"},
                              {"XML", "get it again"},
                              {"text", "name the file that holds the weights"}};

/// A zip archive names its first file after a header of 30 bytes; PyTorch's are zip archives too.
std::string what_zip_is(std::string_view head) {
  constexpr size_t kNameLength = 26, kName = 30;
  if (head.size() < kName) return "the beginning of a zip archive; get it again";
  const size_t length =
      static_cast<unsigned char>(head[kNameLength]) + 256U * static_cast<unsigned char>(head[kNameLength + 1]);
  if (head.substr(kName, length).ends_with(".npy")) return "an archive of NumPy (.npz); save the weights as safetensors";
  return "";
}

/// Also where it is so short that other data might begin so.
FileKind kind_of(std::string_view head) {
  if (const FileKind kind = file_kind(head)) return kind;
  if (head.size() > 1 && head[0] == '\x80' && head[1] >= 1 && head[1] <= 5) return {"a pickle of Python", ""};
  if (head.starts_with("\x1f\x8b")) return {"compressed with gzip", "unpack it"};
  const auto is_plain = [](char c) { return (c >= 32 && c < 127) || (c >= '\t' && c <= '\r'); };
  return std::all_of(head.begin(), head.end(), is_plain) ? FileKind{"text", ""} : FileKind{};
}

}  // namespace

std::string what_file_is(std::string_view head) {
  if (head.empty()) return "empty; get it again";
  if (head.starts_with("PK\3\4")) return what_zip_is(head);
  const FileKind kind = kind_of(head);
  if (!kind || kind.what.starts_with("safetensors")) return "";
  for (const auto& [what, advice] : kAdvice) {
    if (kind.what.starts_with(what)) return fmt::format("{}; {}", kind.what, advice);
  }
  const bool is_packed = kind.advice == "unpack it", is_pointer = kind.advice.starts_with("fetch");
  return fmt::format("{}; {}", kind.what,
                     is_packed    ? "unpack it and name what was in it"
                     : is_pointer ? kind.advice
                                  : "name the file that holds the weights");
}

}  // namespace weft
