#include "weft/plan/advice/remedies.h"

#include <fmt/format.h>

#include <functional>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/recipe/build/build_model.h"

namespace weft {

namespace {

constexpr int kMostTimesRanks = 16;
constexpr int64_t kMostSimulated = 500;  ///< of each search: about a second

class Remedies {
 public:
  Remedies(const Recipe& recipe, int world_size, const Hardware& hardware, const SearchOptions& options,
           std::shared_ptr<CostTable> costs)
      : recipe_(recipe), world_size_(world_size), hardware_(hardware), options_(options), costs_(std::move(costs)) {
    options_.most = 1;
    options_.finds_any = true;
    options_.most_simulated = kMostSimulated;
  }

  std::vector<Remedy> found(bool is_full) {
    free_kept_keys();
    if (!is_full) return std::move(found_);
    change_precision();
    cut_loss();
    lift_limit();
    add_ranks();
    return std::move(found_);
  }

 private:
  /// Adds the remedy if a layout fits. A choice that is not allowed is no remedy.
  bool helps(const std::string& text, const Recipe& recipe, int world_size, const SearchOptions& options) {
    try {
      SearchResult result = search_layouts(recipe, world_size, hardware_, options, costs_);
      if (result.best.empty()) return false;
      found_.push_back({.text = text, .forecast = std::move(result.best.front())});
      return true;
    } catch (const InputError&) {
      return false;
    }
  }

  void free_kept_keys() {
    for (const std::string& key : options_.kept) {
      SearchOptions freed = options_;
      std::erase(freed.kept, key);
      helps(fmt::format("if {} may change", key), recipe_, world_size_, freed);
    }
  }

  void change_precision() {
    if (recipe_.layout.precision != "fp32") return;
    Recipe narrow = recipe_;
    narrow.layout.precision = "bf16";
    helps("with --set layout.precision=bf16, which changes results", narrow, world_size_, options_);
  }

  void cut_loss() {
    constexpr int64_t kChunk = 1024;
    if (recipe_.layout.loss_chunk > 0 || !reads_tokens(recipe_.model)) return;
    Recipe cut = recipe_;
    cut.layout.loss_chunk = kChunk;
    helps(fmt::format("with --set layout.loss_chunk={}, which makes the logits twice", kChunk), cut, world_size_, options_);
  }

  void lift_limit() {
    if (options_.memory_bytes <= 0.0 || options_.memory_bytes >= hardware_.memory_bytes) return;
    SearchOptions whole = options_;
    whole.memory_bytes = 0.0;
    helps("without --memory", recipe_, world_size_, whole);
  }

  /// The smallest power of two times the ranks that fits.
  void add_ranks() {
    for (int times = 2; times <= kMostTimesRanks; times *= 2) {
      const int ranks = world_size_ * times;
      if (helps("on " + counted(ranks, "rank"), recipe_, ranks, options_)) return;
    }
  }

  const Recipe& recipe_;
  int world_size_;
  const Hardware& hardware_;
  SearchOptions options_;
  std::shared_ptr<CostTable> costs_;
  std::vector<Remedy> found_;
};

}  // namespace

std::vector<Remedy> find_remedies(const Recipe& recipe, int world_size, const Hardware& hardware, const SearchOptions& options,
                                  bool is_full, const std::shared_ptr<CostTable>& costs) {
  return Remedies(recipe, world_size, hardware, options, costs).found(is_full);
}

}  // namespace weft
