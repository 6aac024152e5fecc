#include "weft/program/passes/prefetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/units.h"

namespace weft {
namespace {

// Gathers keep their order, as do all other instructions; a gather's place is the first other instruction after it.
class Hoister {
 public:
  Hoister(InstructionList list, const Program& program, const PrefetchOptions& options)
      : list_(std::move(list)), program_(program), options_(options), last_barrier_(program.num_blocks(), -1) {}

  Found<InstructionList> run() {
    others_.reserve(list_.size());
    for (int i = 0; i < static_cast<int>(list_.size()); ++i) {
      const Instruction& x = list_[i];
      if (x.op == Op::gather) {
        gathers_.push_back(i);
        places_.push_back(place_of(x));
        live_ += bytes_of(x);
      } else {
        pass(x, i);
      }
    }
    InstructionList result = hoisted();
    std::string why_not = options_.max_bytes > 0 ? above_limit(result) : "";
    if (!why_not.empty()) return {.why_not = std::move(why_not)};
    return {.value = std::move(result)};
  }

 private:
  int64_t bytes_of(const Instruction& x) const { return program_.weight_numel(x.first) * program_.weight_bytes; }

  // Handles an instruction other than a gather.
  void pass(const Instruction& x, int i) {
    const int place = static_cast<int>(others_.size());
    others_.push_back(i);
    if (x.op == Op::forward || is_backward(x.op)) runs_.push_back(place);
    if (x.op == Op::release) live_ -= bytes_of(x);
    if (x.op != Op::release && x.op != Op::reload) return;
    for (int block = x.first; block < x.last; ++block) last_barrier_[block] = place;
  }

  // Returns the earliest allowed place: not before an earlier gather, nor before the release (or reload) of its block, and at
  // most `depth` block runs up.
  int place_of(const Instruction& gather) const {
    const int own = static_cast<int>(others_.size()), runs = static_cast<int>(runs_.size());
    int highest = std::max(last_barrier_[gather.first] + 1, places_.empty() ? 0 : places_.back());
    if (options_.depth == 0) return own;
    if (runs >= options_.depth) highest = std::max(highest, runs_[runs - options_.depth]);
    if (options_.max_bytes == 0) return highest;
    int place = own;
    for (int64_t live = live_; place > highest; --place) {
      const Instruction& above = list_[others_[place - 1]];
      if (above.op == Op::release) live += bytes_of(above);
      if (live + bytes_of(gather) > options_.max_bytes) break;
    }
    return place;
  }

  InstructionList hoisted() {
    InstructionList result;
    result.reserve(list_.size());
    size_t gather = 0;
    for (int place = 0; place <= static_cast<int>(others_.size()); ++place) {
      for (; gather < gathers_.size() && places_[gather] == place; ++gather) {
        result.push_back(std::move(list_[gathers_[gather]]));
      }
      if (place < static_cast<int>(others_.size())) result.push_back(std::move(list_[others_[place]]));
    }
    return result;
  }

  std::string above_limit(const InstructionList& list) const {
    int64_t live = 0;
    for (const Instruction& x : list) {
      if (x.op == Op::release) live -= bytes_of(x);
      if (x.op != Op::gather) continue;
      live += bytes_of(x);
      if (live <= options_.max_bytes) continue;
      return fmt::format("layout: gathered weights are limited to {}, but with block {} '{}' they take {}",
                         format_bytes(options_.max_bytes), x.first, program_.block_names[x.first], format_bytes(live));
    }
    return {};
  }

  InstructionList list_;
  const Program& program_;
  PrefetchOptions options_;
  std::vector<int> gathers_, places_;  // list index; place among the others
  std::vector<int> others_;            // list index
  std::vector<int> runs_;              // the others_ that run a block
  std::vector<int> last_barrier_;      // by block: the last of others_ that its gather must follow
  int64_t live_ = 0;                   // bytes of whole weights live so far
};

}  // namespace

Found<InstructionList> prefetch(InstructionList list, const Program& program, const PrefetchOptions& options) {
  return Hoister(std::move(list), program, options).run();
}

}  // namespace weft
