#include "weft/data/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/error.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr int64_t kReadBytes = int64_t{1} << 20, kLongestRow = int64_t{1} << 30;
constexpr int kDeepest = 512;                      ///< lists and objects in one another
constexpr int64_t kGroupBytes = int64_t{1} << 20;  ///< bytes of rows, and the last of them

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

/// A document, or why a row holds none.
struct Document {
  std::string text = {};  ///< and a line break
  std::vector<uint32_t> ids = {};
  bool is_text = false;
  std::string wrong = {};
};

struct TooDeep {};

/// The row without its other columns, which may be large; discarded where it is no JSON.
Json parse_row(std::string_view line, const std::string& column) {
  const auto is_wanted = [&](int depth, Json::parse_event_t event, const Json& value) {
    if (depth > kDeepest) throw TooDeep();
    return event != Json::parse_event_t::key || depth > 1 || value.get_ref<const std::string&>() == column;
  };
  return Json::parse(line, is_wanted, false);
}

Document document_of(std::string_view line, const std::string& column, int64_t vocabulary) {
  if (line.starts_with("\x1f\x8b")) return {.wrong = "it is gzip, which is not read; unpack the file"};
  Json row;
  try {
    row = parse_row(line, column);
  } catch (const TooDeep&) {
    return {.wrong = fmt::format("it is nested more than {} deep", kDeepest)};
  }
  if (row.is_discarded()) return {.wrong = "it is no JSON, or cut short"};
  if (!row.is_object()) {
    return {.wrong = fmt::format("it is {} {} and no object", row.is_array() ? "an" : "a", row.type_name())};
  }
  const auto found = row.find(column);
  if (found == row.end()) return {.wrong = fmt::format("it has no '{}'", column)};
  if (found->is_string()) return {.text = std::move(found->get_ref<std::string&>()) + "\n", .is_text = true};
  const auto is_whole = [](const Json& value) { return value.is_number_unsigned(); };
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), is_whole)) {
    const std::string type = found->is_array() ? "a list of something else" : fmt::format("of type {}", found->type_name());
    return {.wrong = fmt::format("'{}' is {}, neither text nor a list of token ids", column, type)};
  }
  Document document;
  document.ids.reserve(found->size());
  for (const Json& value : *found) {
    const uint64_t id = value.get<uint64_t>();
    if (id >= static_cast<uint64_t>(vocabulary)) {
      return {.wrong =
                  fmt::format("token {} at index {} is not below the vocabulary of {}", id, document.ids.size(), vocabulary)};
    }
    document.ids.push_back(static_cast<uint32_t>(id));
  }
  return document;
}

class JsonGroups final : public TokenGroups {
 public:
  JsonGroups(std::shared_ptr<const ShardFiles> files, const JsonLines& lines) : files_(std::move(files)), lines_(lines) {
    for (size_t file = 0; file < files_->count(); ++file) add(file);
    if (counts_.empty()) {
      throw InputError(fmt::format("{}: no documents in {}; check data.path and data.column",
                                   files_->count() > 0 ? files_->name(0) : "jsonl",
                                   files_->count() > 1 ? "it and the other files" : "it"));
    }
  }

  bool is_text() const override { return is_text_; }
  const std::vector<int64_t>& counts() const override { return counts_; }
  std::vector<std::string> left_out() const override { return left_out_; }

  TokenRun load(size_t number) const override {
    const Group& group = groups_[number];
    std::string text(static_cast<size_t>(group.bytes), '\0');
    files_->read(group.file, group.offset, text.data(), group.bytes);
    TokenRun run;
    is_text_ ? run.text.reserve(static_cast<size_t>(counts_[number])) : run.ids.reserve(static_cast<size_t>(counts_[number]));
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line(text.data() + begin, end - begin);
      begin = end + 1;
      if (is_blank(line)) continue;
      const Document document = document_of(line, lines_.column, lines_.vocabulary);
      if (!document.wrong.empty() || document.is_text != is_text_) continue;  // which was told when it was found
      run.begin_document();
      run.text.insert(run.text.end(), document.text.begin(), document.text.end());
      run.ids.insert(run.ids.end(), document.ids.begin(), document.ids.end());
    }
    if (run.size() != counts_[number]) {
      throw InputError(fmt::format("{}: it was changed while it was in use; leave the data alone while a training reads it",
                                   files_->name(group.file)));
    }
    return run;
  }

 private:
  /// Whole rows of a file.
  struct Group {
    size_t file;
    int64_t offset, bytes;
  };

  void add(size_t file) {
    const int64_t bytes = files_->size(file), most = std::max(kReadBytes, files_->block_bytes());
    Group group{.file = file, .offset = 0, .bytes = 0};
    std::string line, block;
    int64_t tokens = 0, number = 0;  // of the group, of the line
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(block.size())) {
      block.resize(static_cast<size_t>(std::min(most, bytes - at)));
      files_->read(file, at, block.data(), static_cast<int64_t>(block.size()));
      for (size_t from = 0; from < block.size();) {
        const size_t end = std::min(block.find('\n', from), block.size());
        line.append(block, from, end - from);
        from = end + 1;
        if (end == block.size() && at + static_cast<int64_t>(end) < bytes) break;  // it goes on in the next one
        tokens += take(line, file, ++number);
        group.bytes += static_cast<int64_t>(line.size()) + (end < block.size() ? 1 : 0);
        line.clear();
        if (group.bytes >= kGroupBytes) close(group, tokens);
      }
      if (static_cast<int64_t>(line.size()) > kLongestRow) {
        throw InputError(
            fmt::format("{}, row {}: more than {} bytes; is it JSON lines?", files_->name(file), number + 1, kLongestRow));
      }
    }
    group.bytes = bytes - group.offset;  // the last line may end without a line break
    close(group, tokens);
  }

  /// Ends a group, and begins the next one.
  void close(Group& group, int64_t& tokens) {
    if (tokens > 0) {
      groups_.push_back(group);
      counts_.push_back(tokens);
    }
    group = {.file = group.file, .offset = group.offset + group.bytes, .bytes = 0};
    tokens = 0;
  }

  /// How many tokens a row has.
  int64_t take(const std::string& line, size_t file, int64_t number) {
    if (is_blank(line)) return 0;
    Document document = document_of(line, lines_.column, lines_.vocabulary);
    const bool is_first = !has_rows_;
    if (document.wrong.empty() && !is_first && document.is_text != is_text_) {
      document.wrong = fmt::format("'{}' is {} there, and in the rows before it {}", lines_.column,
                                   document.is_text ? "text" : "a list of ids", is_text_ ? "text" : "a list of ids");
    }
    if (!document.wrong.empty()) {
      const std::string what = fmt::format("{}, row {}: {}", files_->name(file), number, document.wrong);
      if (lines_.bad == BadData::refuse) throw InputError(fmt::format("{}; mend it, check data.column, {}", what, kOrSkip));
      left_out_.push_back(what);
      return 0;
    }
    const auto tokens = static_cast<int64_t>(document.text.size() + document.ids.size());
    if (is_first && tokens > 0) {
      check_vocabulary(lines_.vocabulary, document.is_text, files_->name(file));
      is_text_ = document.is_text;
      has_rows_ = true;
    }
    return tokens;
  }

  const std::shared_ptr<const ShardFiles> files_;
  const JsonLines lines_;
  std::vector<std::string> left_out_;
  std::vector<Group> groups_;
  std::vector<int64_t> counts_;
  bool is_text_ = false, has_rows_ = false;
};

}  // namespace

std::shared_ptr<const TokenGroups> open_json_lines(std::shared_ptr<const ShardFiles> files, const JsonLines& lines) {
  return std::make_shared<JsonGroups>(std::move(files), lines);
}

}  // namespace weft
