#include "weft/data/tokens/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/data/tokens/json_row.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr int64_t kReadBytes = int64_t{1} << 20, kLongestRow = int64_t{1} << 30;
constexpr int64_t kGroupBytes = int64_t{1} << 20;  ///< bytes of a group's rows, including the last

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

/// Document, or why a row has none.
struct Document {
  std::string text = {};  ///< including a line break
  std::vector<uint32_t> ids = {};
  bool is_text = false;
  std::string wrong = {};
};

/// Returns the first lone half of a surrogate pair in `text`, which is JSON and has one.
std::string lone_half(std::string_view text) {
  const auto is_text = [&](size_t at, size_t bytes) { return Json::accept(fmt::format("\"{}\"", text.substr(at, bytes))); };
  constexpr size_t kEscape = 6;
  for (size_t at = text.find('\\'); at != std::string_view::npos; at = text.find('\\', at + 2)) {
    if (text[at + 1] != 'u' || is_text(at, kEscape)) continue;
    if (!is_text(at, 2 * kEscape)) return std::string(text.substr(at, kEscape));
    at += kEscape;
  }
  return "";
}

Document text_of(std::string_view value, const std::string& column) {
  Json text = Json::parse(value, nullptr, false);
  if (!text.is_discarded()) return {.text = std::move(text.get_ref<std::string&>()) + "\n", .is_text = true};
  return {.wrong = fmt::format("'{}' has {}, half of a surrogate pair, which UTF-8 cannot encode", column, lone_half(value))};
}

/// Parses a list; `value` is well formed.
Document ids_of(std::string_view value, const std::string& column, int64_t vocabulary) {
  Document document;
  for (size_t at = 1; value.find_first_not_of(" \t\r,]", at) != std::string_view::npos;) {
    at = value.find_first_not_of(" \t\r,", at);
    uint64_t id = 0;
    const auto [stop, error] = std::from_chars(value.data() + at, value.data() + value.size(), id);
    const auto end = static_cast<size_t>(stop - value.data());
    if (error != std::errc() || std::string_view(" \t\r,]").find(value[end]) == std::string_view::npos) {
      const std::string_view found = value.substr(at, value.find_first_of(",]", at) - at);
      return {.wrong = fmt::format("'{}' is not a list of token ids: {} at index {}", column, shortened(found, 50),
                                   document.ids.size())};
    }
    if (id >= static_cast<uint64_t>(vocabulary)) {
      return {.wrong =
                  fmt::format("token {} at index {} is not below the vocabulary of {}", id, document.ids.size(), vocabulary)};
    }
    document.ids.push_back(static_cast<uint32_t>(id));
    at = end;
  }
  return document;
}

Document document_of(std::string_view line, const std::string& column, int64_t vocabulary) {
  const auto [value, wrong] = find_json_value(line, column);
  if (!wrong.empty()) return {.wrong = wrong};
  if (value[0] == '"') return text_of(value, column);
  if (value[0] == '[') return ids_of(value, column, vocabulary);
  const std::string what = value[0] == '{' ? "an object" : shortened(value, 50);
  return {.wrong = fmt::format("'{}' is {}, neither text nor a list of token ids", column, what)};
}

class JsonGroups final : public TokenGroups {
 public:
  JsonGroups(std::shared_ptr<const ShardFiles> files, const JsonLines& lines) : files_(std::move(files)), lines_(lines) {
    for (size_t file = 0; file < files_->count(); ++file) add(file);
    if (counts_.empty()) {
      throw InputError(fmt::format(
          "{}: no documents in {}; check data.path and data.column{}", files_->count() > 0 ? files_->name(0) : "jsonl",
          files_->count() > 1 ? "it and the other files" : "it", first_notes(left_out_, passed_over())));
    }
  }

  bool is_text() const override { return is_text_; }
  const std::vector<int64_t>& counts() const override { return counts_; }
  DataNotes left_out() const override { return left_out_; }
  DataNotes passed_over() const override { return files_->passed_over(); }

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
      if (!document.wrong.empty() || document.is_text != is_text_) continue;  // reported when first found
      run.begin_document();
      run.text.insert(run.text.end(), document.text.begin(), document.text.end());
      run.ids.insert(run.ids.end(), document.ids.begin(), document.ids.end());
    }
    if (run.size() != counts_[number]) {
      throw InputError(
          fmt::format("{}: changed while in use; do not change data while a training reads it", files_->name(group.file)));
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
    if (const FileKind kind = other_kind(file)) {  // otherwise every line would be reported
      return leave_out(fmt::format("{}: it is {}, where JSON lines are expected", files_->name(file), kind.what), kind.advice);
    }
    const int64_t bytes = files_->size(file), most = std::max(kReadBytes, files_->block_bytes());
    Group group{.file = file, .offset = 0, .bytes = 0};
    std::string line, block;
    int64_t tokens = 0, number = 0;  // tokens in the group, number of the line
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(block.size())) {
      block.resize(static_cast<size_t>(std::min(most, bytes - at)));
      files_->read(file, at, block.data(), static_cast<int64_t>(block.size()));
      for (size_t from = 0; from < block.size();) {
        const size_t end = std::min(block.find('\n', from), block.size());
        line.append(block, from, end - from);
        from = end + 1;
        if (end == block.size() && at + static_cast<int64_t>(end) < bytes) break;  // continues in the next block
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
    group.bytes = bytes - group.offset;  // the last line may lack a line break
    close(group, tokens);
  }

  /// Kind of a file whose first bytes do not begin an object.
  FileKind other_kind(size_t file) const {
    std::string head(static_cast<size_t>(std::min<int64_t>(files_->size(file), kHeadBytes)), '\0');
    files_->read(file, 0, head.data(), static_cast<int64_t>(head.size()));
    const size_t first = head.find_first_not_of(" \t\r\n\xef\xbb\xbf");
    const FileKind kind = first < head.size() && head[first] == '{' ? FileKind() : file_kind(head);
    return kind.what == kPlainText ? FileKind() : kind;
  }

  void leave_out(const std::string& what, std::string_view advice) {
    if (lines_.bad == BadData::refuse) throw InputError(fmt::format("{}; {}, {}", what, advice, kOrSkip));
    add_note(left_out_, what);
  }

  /// Ends a group and begins the next one.
  void close(Group& group, int64_t& tokens) {
    if (tokens > 0) {
      groups_.push_back(group);
      counts_.push_back(tokens);
    }
    group = {.file = group.file, .offset = group.offset + group.bytes, .bytes = 0};
    tokens = 0;
  }

  /// Returns the number of tokens in a row.
  int64_t take(const std::string& line, size_t file, int64_t number) {
    if (is_blank(line)) return 0;
    Document document = document_of(line, lines_.column, lines_.vocabulary);
    const bool is_first = !has_rows_;
    if (document.wrong.empty() && !is_first && document.is_text != is_text_) {
      document.wrong = fmt::format("'{}' is {} here, but {} in the rows before", lines_.column,
                                   document.is_text ? "text" : "a list of ids", is_text_ ? "text" : "a list of ids");
    }
    if (!document.wrong.empty()) {
      leave_out(fmt::format("{}, row {}: {}", files_->name(file), number, document.wrong), "fix it, check data.column");
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
  DataNotes left_out_;
  std::vector<Group> groups_;
  std::vector<int64_t> counts_;
  bool is_text_ = false, has_rows_ = false;
};

}  // namespace

std::shared_ptr<const TokenGroups> open_json_lines(std::shared_ptr<const ShardFiles> files, const JsonLines& lines) {
  return std::make_shared<JsonGroups>(std::move(files), lines);
}

}  // namespace weft
