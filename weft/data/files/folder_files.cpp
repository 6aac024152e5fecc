#include "weft/data/files/folder_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "weft/base/error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

enum class Part { none, training, evaluation };

Part part_of(const std::string& word) {
  static const std::set<std::string> training = {"train", "training"};
  static const std::set<std::string> evaluation = {"val",        "valid", "validation", "dev",    "eval",
                                                   "evaluation", "test",  "testing",    "heldout"};
  return training.count(word) > 0 ? Part::training : evaluation.count(word) > 0 ? Part::evaluation : Part::none;
}

/// First word in a name that marks it as a training or evaluation part.
struct PartOfName {
  Part part = Part::none;
  size_t end = 0;    ///< end of the word
  std::string rest;  ///< the name without it and without digits: equal for all parts of one set
};

PartOfName part_and_rest(const std::string& name) {
  std::string rest, word;
  Part part = Part::none;
  size_t end = 0;
  for (size_t i = 0; i <= name.size(); ++i) {
    const char c = i < name.size() ? static_cast<char>(std::tolower(static_cast<unsigned char>(name[i]))) : '.';
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word += c;
      continue;
    }
    const Part of_word = part == Part::none ? part_of(word) : Part::none;
    if (of_word == Part::none) rest += word;
    if (of_word != Part::none) part = of_word, end = i;
    if (std::isdigit(static_cast<unsigned char>(c)) == 0 && i < name.size()) rest += c;
    word.clear();
  }
  return {part, end, std::move(rest)};
}

}  // namespace

FolderFiles regular_files(const std::string& folder) {
  FolderFiles files;
  std::vector<fs::path> links;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    std::error_code status;
    const fs::file_type type = it->symlink_status(status).type();
    const std::string path = it->path().string();
    if (it->path().filename().string().starts_with('.')) {
      files.passed_over.push_back(path + " (hidden)");
    } else if (type == fs::file_type::regular) {
      files.taken.push_back(path);
    } else if (type == fs::file_type::symlink) {
      links.push_back(it->path());
    } else {
      files.passed_over.push_back(path + (type == fs::file_type::directory ? " (a folder)" : " (not a regular file)"));
    }
  }
  if (code) throw InputError(fmt::format("{}: cannot list it: {}; check data.path", folder, code.message()));
  std::sort(files.taken.begin(), files.taken.end());
  for (const fs::path& link : links) {
    std::error_code status;
    const bool is_here = fs::equivalent(fs::canonical(link, status).parent_path(), folder, status);
    if (!is_here) files.passed_over.push_back(link.string() + " (a link)");
  }
  return files;
}

std::vector<std::string> two_parts(const std::vector<std::string>& names) {
  std::map<std::string, std::string> training;
  for (const std::string& name : names) {
    auto [part, end, rest] = part_and_rest(name);
    if (part == Part::training) training.emplace(std::move(rest), name);
  }
  for (const std::string& name : names) {
    const auto [part, end, rest] = part_and_rest(name);
    const auto other = training.find(rest);
    if (part == Part::evaluation && other != training.end()) return {other->second, name};
  }
  return {};
}

std::string part_pattern(const std::string& name) {
  const size_t end = part_and_rest(name).end, dot = std::max(end, std::min(name.rfind('.'), name.size()));
  std::string pattern;
  for (const char c : name.substr(0, end)) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!is_digit || !pattern.ends_with('*')) pattern += is_digit ? '*' : c;
  }
  if (dot > end) pattern += name.substr(end, 1) + "*";  // with the separator after the word
  return pattern + name.substr(dot);
}

void check_one_part(const std::string& folder, const std::vector<std::string>& names,
                    const std::function<std::string(const std::string& training, const std::string& evaluation)>& advice) {
  const std::vector<std::string> both = two_parts(names);
  if (both.empty()) return;
  throw InputError(fmt::format("{}: it holds '{}' for training and '{}' for evaluation, which would be read as one set; {}",
                               folder, both[0], both[1], advice(both[0], both[1])));
}

}  // namespace weft
