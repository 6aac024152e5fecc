#include "weft/program/passes/prefetch.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/units.h"

namespace weft {
namespace {

class Hoister {
 public:
  Hoister(const InstructionList& list, const Program& program, const PrefetchOptions& options)
      : list_(list), program_(program), options_(options) {}

  InstructionList run() {
    for (int i = 0; i < static_cast<int>(list_.size()); ++i) {
      if (list_[i].op == Op::gather) hoist(i);
    }
    if (options_.max_bytes > 0) check_limit();
    return list_;
  }

 private:
  int64_t bytes_of(const Instruction& x) const { return program_.block_numel[x.first] * program_.weight_bytes; }

  // Whole weights there when instruction `at` starts.
  int64_t live_before(int at) const {
    int64_t live = 0;
    for (int i = 0; i < at; ++i) {
      if (list_[i].op == Op::gather) live += bytes_of(list_[i]);
      if (list_[i].op == Op::release) live -= bytes_of(list_[i]);
    }
    return live;
  }

  // The gather moves up one instruction at a time while the rules allow it.
  void hoist(int at) {
    int passed = 0;
    int64_t live = options_.max_bytes > 0 ? live_before(at) : 0;
    while (at > 0 && passed < options_.depth) {
      const Instruction& above = list_[at - 1];
      const bool same_block = above.first <= list_[at].first && list_[at].first < above.last;
      // Gathers keep their order, and a block is released (or brought back from a slower tier) before it is gathered again.
      if (above.op == Op::gather || (same_block && (above.op == Op::release || above.op == Op::fetch))) break;
      const bool block_runs = above.op == Op::forward || is_backward(above.op);
      if (above.op == Op::release) live += bytes_of(above);
      if (options_.max_bytes > 0 && live + bytes_of(list_[at]) > options_.max_bytes) break;
      passed += block_runs ? 1 : 0;
      std::swap(list_[at - 1], list_[at]);
      --at;
    }
  }

  void check_limit() const {
    int64_t live = 0;
    for (const Instruction& x : list_) {
      if (x.op == Op::release) live -= bytes_of(x);
      if (x.op != Op::gather) continue;
      live += bytes_of(x);
      if (live <= options_.max_bytes) continue;
      throw InputError(fmt::format("layout: at most {} of gathered weights are allowed, but block {} '{}' needs {} with it",
                                   format_bytes(options_.max_bytes), x.first, program_.block_names[x.first],
                                   format_bytes(live)));
    }
  }

  InstructionList list_;
  const Program& program_;
  PrefetchOptions options_;
};

}  // namespace

InstructionList prefetch(const InstructionList& list, const Program& program, const PrefetchOptions& options) {
  return Hoister(list, program, options).run();
}

}  // namespace weft
