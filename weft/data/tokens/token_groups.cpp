#include "weft/data/tokens/token_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/data/bad_data.h"
#include "weft/data/group_cache.h"
#include "weft/data/group_order.h"

namespace weft {
namespace {

class GroupedTokens final : public TokenSource, public GroupReader {
 public:
  GroupedTokens(std::shared_ptr<const TokenGroups> groups, int64_t cache_bytes)
      : groups_(std::move(groups)), token_bytes_(groups_->is_text() ? sizeof(uint8_t) : sizeof(uint32_t)), cache_(cache_bytes) {
    starts_.reserve(groups_->counts().size() + 1);
    starts_.push_back(0);
    for (const int64_t count : groups_->counts()) starts_.push_back(starts_.back() + count);
  }

  int64_t size() const override { return starts_.back(); }
  DataNotes left_out() const override { return groups_->left_out(); }
  DataNotes passed_over() const override { return groups_->passed_over(); }
  const GroupReader* grouped() const override { return this; }

  /// Reads all groups once.
  std::vector<int64_t> document_starts() const override {
    std::vector<int64_t> all;
    for (size_t group = 0; group + 1 < starts_.size(); ++group) {
      for (const int64_t start : groups_->load(group).starts) all.push_back(starts_[group] + start);
    }
    return all;
  }

  void read(int64_t begin, int64_t count, int64_t* out) const override {
    if (begin < 0 || count < 0 || begin > size() - count) {
      throw InputError(fmt::format("tokens [{}, {}) requested, but the stream has only {}", begin, begin + count, size()));
    }
    auto group = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), begin) - starts_.begin()) - 1;
    for (; count > 0; ++group) {
      const std::shared_ptr<const TokenRun> run = tokens_of(group);
      const int64_t offset = begin - starts_[group], part = std::min(count, starts_[group + 1] - begin);
      out = groups_->is_text() ? std::copy_n(run->text.begin() + offset, part, out)
                               : std::copy_n(run->ids.begin() + offset, part, out);
      begin += part;
      count -= part;
    }
  }

  std::vector<SampleGroup> groups() const override {
    std::vector<SampleGroup> all;
    all.reserve(groups_->counts().size());
    for (const int64_t count : groups_->counts()) all.push_back({count, count * token_bytes_});
    return all;
  }
  bool holds(size_t group) const override { return cache_.holds(group); }
  void load(size_t group) const override {
    if (cache_.expects(group)) return;
    try {
      tokens_of(group);
    } catch (const BadDataError&) {
      // Reported to the caller that asks for its tokens.
    }
  }

 private:
  std::shared_ptr<const TokenRun> tokens_of(size_t group) const {
    return std::static_pointer_cast<const TokenRun>(cache_.get(group, [&] {
      TokenRun run = groups_->load(group);
      run.starts = {};  // not needed here
      return LoadedGroup{std::make_shared<const TokenRun>(std::move(run)), groups_->counts()[group] * token_bytes_};
    }));
  }

  const std::shared_ptr<const TokenGroups> groups_;
  const int64_t token_bytes_;
  const GroupCache cache_;
  std::vector<int64_t> starts_;  ///< position of each group's first token, and the end
};

}  // namespace

void check_vocabulary(int64_t vocabulary, bool is_text, const std::string& name) {
  constexpr int64_t kBytes = 256, kMost = int64_t{1} << 32;
  if (is_text && vocabulary < kBytes) {
    throw InputError(fmt::format("{}: it holds text, whose bytes need a model.vocabulary of at least {}", name, kBytes));
  }
  if (vocabulary < 1 || vocabulary > kMost) {
    throw InputError(fmt::format("{}: model.vocabulary = {}: it must be in [1, 2^32]", name, vocabulary));
  }
}

std::shared_ptr<const TokenSource> token_source(std::shared_ptr<const TokenGroups> groups, int64_t cache_bytes) {
  return std::make_shared<GroupedTokens>(std::move(groups), cache_bytes);
}

}  // namespace weft
