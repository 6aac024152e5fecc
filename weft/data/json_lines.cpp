#include "weft/data/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/input_file.h"
#include "weft/base/printable.h"
#include "weft/data/file_set.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Tokens = std::vector<int64_t>;

constexpr int64_t kBlock = int64_t{1} << 20, kLongestRow = int64_t{1} << 30;

std::vector<std::string> files_of(const std::string& path) {
  std::error_code code;
  if (!fs::is_directory(path, code)) return {path};
  std::vector<std::string> paths;
  for (fs::directory_iterator it(path, code), end; !code && it != end; it.increment(code)) {
    const bool is_hidden = it->path().filename().string().starts_with('.');
    if (it->is_regular_file() && !is_hidden && it->path().extension() == ".jsonl") paths.push_back(it->path().string());
  }
  if (code) throw InputError(fmt::format("{}: cannot list it: {}; check data.path", path, code.message()));
  if (paths.empty()) throw InputError(fmt::format("{}: the folder holds no .jsonl files; check data.path", path));
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// A document, or why a row holds none.
struct Document {
  Tokens tokens;
  bool is_text = false;
  std::string wrong;
};

Document document_of(const std::string& line, const std::string& column, int64_t vocabulary) {
  const Json row = Json::parse(line, nullptr, false);
  if (row.is_discarded()) return {.tokens = {}, .wrong = "it is no JSON, or cut short"};
  if (!row.is_object())
    return {.tokens = {}, .wrong = fmt::format("it is {} {} and no object", row.is_array() ? "an" : "a", row.type_name())};
  const auto found = row.find(column);
  if (found == row.end()) return {.tokens = {}, .wrong = fmt::format("it has no '{}'", column)};
  Document document{.tokens = {}, .is_text = found->is_string(), .wrong = {}};
  if (document.is_text) {
    const auto& text = found->get_ref<const std::string&>();
    document.tokens.assign(reinterpret_cast<const uint8_t*>(text.data()),
                           reinterpret_cast<const uint8_t*>(text.data()) + text.size());
    document.tokens.push_back('\n');
    return document;
  }
  const auto is_whole = [](const Json& value) { return value.is_number_unsigned(); };
  if (!found->is_array() || !std::all_of(found->begin(), found->end(), is_whole)) {
    const std::string type = found->is_array() ? "a list of something else" : fmt::format("of type {}", found->type_name());
    return {.tokens = {}, .wrong = fmt::format("'{}' is {}, neither text nor a list of token ids", column, type)};
  }
  for (const Json& value : *found) {
    const uint64_t id = value.get<uint64_t>();
    if (id >= static_cast<uint64_t>(vocabulary)) {
      document.wrong =
          fmt::format("token {} at index {} is not below the vocabulary of {}", id, document.tokens.size(), vocabulary);
      return document;
    }
    document.tokens.push_back(static_cast<int64_t>(id));
  }
  return document;
}

class Rows final : public TokenSource {
 public:
  explicit Rows(const JsonLines& lines) : lines_(lines) {
    for (const std::string& path : files_of(lines.path)) add(path);
    if (size_ == 0) throw InputError(fmt::format("{}: no documents in it; check data.path and data.column", lines.path));
  }

  int64_t size() const override { return size_; }
  std::vector<std::string> left_out() const override { return left_out_; }
  std::vector<int64_t> document_starts() const override {
    std::vector<int64_t> starts;
    starts.reserve(rows_.size());
    for (const Row& row : rows_) starts.push_back(row.first);
    return starts;
  }

  void read(int64_t begin, int64_t count, int64_t* out) const override {
    if (begin < 0 || count < 0 || begin > size_ - count) {
      throw InputError(fmt::format("tokens [{}, {}) asked for, the stream has {}", begin, begin + count, size_));
    }
    auto row = std::upper_bound(rows_.begin(), rows_.end(), begin, [](int64_t at, const Row& r) { return at < r.first; });
    for (--row; count > 0; ++row) {
      const Tokens tokens = tokens_of(*row);
      const int64_t offset = begin - row->first;
      const int64_t part = std::min(count, static_cast<int64_t>(tokens.size()) - offset);
      out = std::copy_n(tokens.begin() + offset, part, out);
      begin += part;
      count -= part;
    }
  }

 private:
  struct Row {
    int64_t first;   ///< position of its first token in the stream
    int64_t offset;  ///< of its line in the file
    int64_t bytes;
    size_t file;
  };

  void add(const std::string& path) {
    InputFile opened = open_input(path);
    if (!opened.reason.empty()) throw InputError(fmt::format("{}: cannot open it: {}; check data.path", path, opened.reason));
    const int64_t bytes = opened.bytes;
    const size_t file = files_.add(path, std::move(opened));
    paths_.push_back(path);
    std::string line, block;
    int64_t begin = 0, number = 0;  // of the line
    for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(block.size())) {
      block.resize(static_cast<size_t>(std::min(kBlock, bytes - at)));
      files_.read(file, at, block.data(), static_cast<int64_t>(block.size()));
      for (size_t from = 0; from < block.size();) {
        const size_t end = std::min(block.find('\n', from), block.size());
        line.append(block, from, end - from);
        if (end == block.size() && at + static_cast<int64_t>(end) < bytes) break;  // it goes on in the next one
        take(line, {.first = size_, .offset = begin, .bytes = static_cast<int64_t>(line.size()), .file = file}, ++number);
        begin += static_cast<int64_t>(line.size()) + 1;
        line.clear();
        from = end + 1;
      }
      if (static_cast<int64_t>(line.size()) > kLongestRow) {
        throw InputError(fmt::format("{}, row {}: more than {} bytes; is it JSON lines?", path, number + 1, kLongestRow));
      }
    }
  }

  void take(const std::string& line, const Row& row, int64_t number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) return;
    Document document = document_of(line, lines_.column, lines_.vocabulary);
    constexpr int64_t kBytes = 256;
    if (document.wrong.empty() && document.is_text && lines_.vocabulary < kBytes) {
      throw InputError(
          fmt::format("{}: it holds text, for whose bytes model.vocabulary must be at least {}", lines_.path, kBytes));
    }
    if (document.wrong.empty() && !rows_.empty() && document.is_text != is_text_) {
      document.wrong = fmt::format("'{}' is {} there, and in the rows before it {}", lines_.column,
                                   document.is_text ? "text" : "a list of ids", is_text_ ? "text" : "a list of ids");
    }
    if (!document.wrong.empty()) {
      const std::string what = fmt::format("{}, row {}: {}", paths_[row.file], number, document.wrong);
      if (lines_.bad == BadData::refuse) throw InputError(fmt::format("{}; mend it, check data.column, {}", what, kOrSkip));
      left_out_.push_back(what);
      return;
    }
    if (document.tokens.empty()) return;
    is_text_ = document.is_text;
    rows_.push_back(row);
    size_ += static_cast<int64_t>(document.tokens.size());
  }

  Tokens tokens_of(const Row& row) const {
    std::string line(static_cast<size_t>(row.bytes), '\0');
    files_.read(row.file, row.offset, line.data(), row.bytes);
    Document document = document_of(line, lines_.column, lines_.vocabulary);
    const int64_t next = &row == &rows_.back() ? size_ : (&row + 1)->first;
    if (!document.wrong.empty() || document.is_text != is_text_ ||
        static_cast<int64_t>(document.tokens.size()) != next - row.first) {
      throw InputError(fmt::format("{}: it was changed while it was in use; leave the data alone while a training reads it",
                                   paths_[row.file]));
    }
    return std::move(document.tokens);
  }

  const JsonLines lines_;
  FileSet files_;
  std::vector<std::string> paths_, left_out_;
  std::vector<Row> rows_;
  int64_t size_ = 0;
  bool is_text_ = false;
};

}  // namespace

std::shared_ptr<const TokenSource> open_json_lines(const JsonLines& lines) { return std::make_shared<Rows>(lines); }

}  // namespace weft
