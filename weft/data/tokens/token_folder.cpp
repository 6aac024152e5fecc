#include "weft/data/tokens/token_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/file_kind.h"
#include "weft/base/input_file.h"
#include "weft/data/tokens/megatron_index.h"
#include "weft/data/tokens/token_layout.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

using Names = std::set<std::string>;

std::string name_of(const std::string& path) { return fs::path(path).filename().string(); }

/// Returns the suffix in lower case; empty for digits, as in the parts of a split file.
std::string suffix_of(const std::string& path) {
  std::string suffix = fs::path(path).extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  const bool is_number = suffix.find_first_not_of(".0123456789") == std::string::npos;
  return is_number ? "" : suffix;
}

/// Suffixes of files that are not token ids, however small.
const Names kOtherSuffixes = {".cfg", ".csv", ".html", ".ipynb", ".json", ".jsonl", ".log", ".md",    ".merges", ".model",
                              ".pkl", ".py",  ".rst",  ".sh",    ".toml", ".tsv",   ".txt", ".vocab", ".yaml",   ".yml"};
/// Suffixes of texts whose names may mark parts of a set; a program's files may be called train.py and test.py.
const Names kTextSuffixes = {"", ".bin", ".raw", ".text", ".tokens", ".txt"};

/// True if a file belongs to another file of the folder.
bool is_index(const std::string& path, TokenType type, const Names& all) {
  const std::string stem = fs::path(path).replace_extension().string();
  if (type == TokenType::u8) return path.ends_with(".dat") && all.count(stem) > 0;
  return path.ends_with(".idx") && all.count(stem + ".bin") > 0 && megatron_index_of(stem + ".bin") == path;
}

/// Returns the paths, without suffix, of files written by Megatron.
std::vector<std::string> megatron_stems(const std::vector<std::string>& paths, TokenType type) {
  std::vector<std::string> stems;
  for (const std::string& path : paths) {
    if (type != TokenType::u8 && !megatron_index_of(path).empty()) stems.push_back(path.substr(0, path.rfind('.')));
  }
  return stems;
}

/// Returns why a file is not part of the set; empty: it is, or opening it reports what is wrong.
std::string reason_against(const std::string& path, const FileKind& kind, TokenType type,
                           const std::vector<std::string>& stems) {
  if (type == TokenType::u8) {
    if (!kind && suffix_of(path) == ".dat") return "not text";  // such as an index for `fortune` without its text
    return kind && !kind.is_text ? std::string(kind.what) : "";
  }
  const auto is_of = [&](const std::string& stem) { return path.starts_with(stem + "_"); };
  if (path.ends_with(".npy") && std::any_of(stems.begin(), stems.end(), is_of)) return "a sample order saved by Megatron";
  if (kind && kind.what != kNumpyArray) return std::string(kind.what);
  return kOtherSuffixes.count(suffix_of(path)) > 0 ? "not token ids by its suffix" : "";
}

/// Describes what all files of one set must have in common.
std::string kind_of(const std::string& path, const InputFile& file, TokenType type) {
  const TokenLayout layout = token_layout(path, file, type);
  const std::string suffix = suffix_of(path);
  return fmt::format("{}ids of {} bits{}", layout.format.empty() ? "" : fmt::format("{} ", layout.format),
                     8 * token_bytes(layout.type), suffix.empty() ? "" : " in *" + suffix);
}

void check_one_kind(const std::string& folder, const std::vector<std::string>& paths, TokenType type) {
  std::string first, kind;
  for (const std::string& path : paths) {
    const InputFile file = open_input(path);
    if (!file.reason.empty() || file.bytes == 0) continue;
    const std::string found = kind_of(path, file, type);
    if (!kind.empty() && found != kind) {
      throw InputError(
          fmt::format("{}: its files differ in kind: '{}' holds {}, '{}' {}; name one of them with data.path, or give "
                      "each kind its own folder",
                      folder, name_of(first), kind, name_of(path), found));
    }
    if (kind.empty()) first = path;
    kind = found;
  }
}

}  // namespace

FolderFiles token_files(const std::string& folder, TokenType type) {
  FolderFiles all = regular_files(folder), files{.taken = {}, .passed_over = std::move(all.passed_over)};
  const Names paths(all.taken.begin(), all.taken.end());
  const std::vector<std::string> stems = megatron_stems(all.taken, type);
  std::vector<std::string> names;
  std::map<std::string, std::pair<std::string, FileKind>> others;  // first file of another kind, by suffix
  for (const std::string& path : all.taken) {
    if (is_index(path, type, paths)) continue;
    const InputFile file = open_input(path);
    const FileKind kind = file.reason.empty() ? file_kind(read_head(path, file)) : FileKind();
    const std::string reason = reason_against(path, kind, type, stems);
    if (!reason.empty()) {
      files.passed_over.push_back(fmt::format("{} ({})", path, reason));
      if (kind && kind.what != kPlainText) others.emplace(suffix_of(path), std::pair(path, kind));
      continue;
    }
    files.taken.push_back(path);
    if (type != TokenType::u8 || kTextSuffixes.count(suffix_of(path)) > 0) names.push_back(name_of(path));
  }
  for (const std::string& path : files.taken) {
    const auto other = others.find(suffix_of(path));
    if (other == others.end()) continue;
    const auto& [name, kind] = other->second;
    throw InputError(
        fmt::format("{}: it is {}, but '{}' there is data; {}, or remove it", name, kind.what, name_of(path), kind.advice));
  }
  check_one_part(folder, names, [&](const std::string& training, const std::string& evaluation) {
    if (names.size() == 2)
      return fmt::format("set data.path = \"{}/{}\", and name '{}' in [[evaluation]]", folder, training, evaluation);
    return fmt::format("move them into separate folders (data.path = \"{0}/train\", and in [[evaluation]] path = \"{0}/val\")",
                       folder);
  });
  if (type != TokenType::u8) check_one_kind(folder, files.taken, type);
  return files;
}

}  // namespace weft
