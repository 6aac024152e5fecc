#include "weft/checkpoint/other_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

/// Advice for a kind of file that holds something else, or weights in another form.
struct Advice {
  std::string_view what, advice;
};

constexpr std::string_view kSaveAgain = "load it with torch.load() and save its state dict again";
constexpr Advice kAdvice[] = {{"a checkpoint of PyTorch", kSaveAgain},
                              {"a Python pickle", "save its state dict in Python with torch.save(), or as safetensors"},
                              {"HDF5", "save the weights as safetensors"},
                              {"a NumPy array", "save the weights as safetensors"},
                              {"weights of llama.cpp", "name the safetensors files it was made from"},
                              {"an HTML page", "get it again"},
                              {"XML", "get it again"},
                              {"text", "name the file that holds the weights"}};

/// Looks at the name of the first file, which follows a 30-byte header; PyTorch's files are zip archives too.
std::string describe_zip(std::string_view head) {
  constexpr size_t kNameLength = 26, kName = 30;
  if (head.size() < kName) return "a truncated zip archive; get it again";
  const size_t length =
      static_cast<unsigned char>(head[kNameLength]) + 256U * static_cast<unsigned char>(head[kNameLength + 1]);
  if (head.substr(kName, length).ends_with(".npy")) return "a NumPy archive (.npz); save the weights as safetensors";
  return "";
}

/// Returns file_kind(), or else a guess from marks so short that other data might begin the same way.
FileKind kind_of(std::string_view head) {
  if (const FileKind kind = file_kind(head)) return kind;
  if (head.size() > 1 && head[0] == '\x80' && head[1] >= 1 && head[1] <= 5) return {"a Python pickle", ""};
  if (head.starts_with("\x1f\x8b")) return {"compressed with gzip", "unpack it"};
  const auto is_plain = [](char c) { return (c >= 32 && c < 127) || (c >= '\t' && c <= '\r'); };
  return std::all_of(head.begin(), head.end(), is_plain) ? FileKind{"text", ""} : FileKind{};
}

}  // namespace

std::string describe_foreign_file(std::string_view head) {
  if (head.empty()) return "empty; get it again";
  if (head.starts_with("PK\3\4")) return describe_zip(head);
  const FileKind kind = kind_of(head);
  if (!kind || kind.what.starts_with("safetensors")) return "";
  for (const auto& [what, advice] : kAdvice) {
    if (kind.what.starts_with(what)) return fmt::format("{}; {}", kind.what, advice);
  }
  const bool is_packed = kind.advice == "unpack it", is_pointer = kind.advice.starts_with("fetch");
  return fmt::format("{}; {}", kind.what,
                     is_packed    ? "unpack it and name the file inside"
                     : is_pointer ? kind.advice
                                  : "name the file that holds the weights");
}

}  // namespace weft
