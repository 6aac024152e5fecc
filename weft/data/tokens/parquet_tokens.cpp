#include "weft/data/tokens/parquet_tokens.h"

#include <c10/util/FunctionRef.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/data/parquet/parquet_files.h"

namespace weft {
namespace {

class ParquetGroups final : public TokenGroups {
 public:
  ParquetGroups(std::shared_ptr<const ShardFiles> files, const ParquetText& text)
      : text_(text),
        files_(open_parquet(std::move(files), {{text.column, ParquetContents::documents, "data.column"}}, text.bad)),
        left_out_(files_->left_out()) {
    check_vocabulary(text.vocabulary, is_text(), files_->name(0));
    for (size_t group = 0; group < files_->groups().size(); ++group) {
      const int64_t count = count_of(group);
      if (count == 0) continue;
      groups_.push_back(group);
      counts_.push_back(count);
    }
    if (counts_.empty()) {
      throw InputError(fmt::format("{}: no documents in '{}'; check data.path and data.column", files_->name(0), text.column));
    }
  }

  bool is_text() const override { return files_->is_text(); }
  const std::vector<int64_t>& counts() const override { return counts_; }
  DataNotes left_out() const override { return left_out_; }
  DataNotes passed_over() const override { return files_->passed_over(); }

  TokenRun load(size_t number) const override {
    const size_t group = groups_[number];
    TokenRun run = whole_run_of(group);
    const int64_t found = run.size();
    if (found == counts_[number]) return run;
    throw InputError(
        fmt::format("{}: {} tokens now, {} when opened or by the file's metadata; write the file again, and "
                    "do not change data while a training reads it",
                    files_->name(group), found, counts_[number]));
  }

 private:
  /// Reads a group again that was good, or whose count in the file was trusted.
  TokenRun whole_run_of(size_t group) const {
    const bool refuses = text_.bad == BadData::refuse;
    try {
      return run_of(group, [refuses](const std::string& what) {
        if (refuses) refuse(what);
      });
    } catch (const BadDataError& error) {
      if (refuses) refuse(error.what());
      throw;
    }
  }
  [[noreturn]] static void refuse(const std::string& what) {
    throw InputError(fmt::format("{}; fix it, check data.column, {}", what, kOrSkip));
  }

  /// Returns the number of tokens in a row group.
  int64_t count_of(size_t group) {
    const ParquetGroup& known = files_->groups()[group];
    if (known.noted >= 0 && text_.bad == BadData::refuse) return known.noted + (is_text() ? known.rows : 0);
    const auto take = [this](const std::string& what) {
      if (text_.bad == BadData::refuse) refuse(what);
      add_note(left_out_, what);
    };
    try {
      const TokenRun run = run_of(group, take);
      return run.size();
    } catch (const BadDataError& error) {
      take(error.what());
      return 0;
    }
  }

  /// Returns the tokens of a row group; passes bad rows to `bad`.
  TokenRun run_of(size_t group, c10::function_ref<void(const std::string& what)> bad) const {
    const ParquetValues values = files_->read(group, 0);
    const auto rows = static_cast<size_t>(files_->groups()[group].rows);
    TokenRun run;
    size_t size = is_text() ? rows : values.numbers.size();
    for (const std::string_view document : values.bytes) size += document.size();
    is_text() ? run.text.reserve(size) : run.ids.reserve(size);
    for (size_t row = 0; row < rows; ++row) {
      const bool is_null = std::binary_search(values.nulls.begin(), values.nulls.end(), static_cast<int64_t>(row));
      const std::string wrong = is_null ? "is null or contains a null" : add(values, row, run);
      if (!wrong.empty()) bad(fmt::format("{}, row {}: '{}' {}", files_->name(group), row, text_.column, wrong));
    }
    return run;
  }

  /// Adds a row; returns what is wrong with it, if anything.
  std::string add(const ParquetValues& values, size_t row, TokenRun& run) const {
    if (is_text()) {
      const std::string_view document = values.bytes[row];
      run.begin_document();
      run.text.insert(run.text.end(), document.begin(), document.end());
      run.text.push_back('\n');
      return "";
    }
    const auto begin = values.numbers.begin() + (row == 0 ? 0 : values.ends[row - 1]),
               end = values.numbers.begin() + values.ends[row];
    const auto wrong = std::find_if(begin, end, [this](int64_t id) { return id < 0 || id >= text_.vocabulary; });
    if (wrong != end) {
      return fmt::format("has token {} at index {}, which is not in [0, {}), the vocabulary", *wrong, wrong - begin,
                         text_.vocabulary);
    }
    run.begin_document();
    std::transform(begin, end, std::back_inserter(run.ids), [](int64_t id) { return static_cast<uint32_t>(id); });
    return "";
  }

  const ParquetText text_;
  const std::shared_ptr<const ParquetFiles> files_;
  DataNotes left_out_;
  std::vector<size_t> groups_;  ///< groups with tokens
  std::vector<int64_t> counts_;
};

}  // namespace

std::shared_ptr<const TokenGroups> open_parquet_tokens(std::shared_ptr<const ShardFiles> files, const ParquetText& text) {
  return std::make_shared<ParquetGroups>(std::move(files), text);
}

}  // namespace weft
