#include "weft/program/verify/state_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "weft/program/defect.h"
#include "weft/program/edit.h"
#include "weft/program/verify/order.h"
#include "weft/program/verify/step_index.h"

namespace weft {
namespace {

class StateCheck {
 public:
  StateCheck(const Program& program, int rank)
      : program_(program),
        list_(program.of(rank)),
        rank_(rank),
        buffers_(program.buffers_of(rank)),
        order_(list_),
        gathered_(program.num_blocks(), -1),
        released_(program.num_blocks(), -1),
        updated_(program.num_blocks(), -1),
        pools_(program.num_blocks()),
        gradient_users_(program.num_blocks()),
        gradient_in_(program.num_blocks(), false),
        reduced_(program.num_blocks(), -1) {}

  void run() {
    for (int i = 0; i < static_cast<int>(list_.size()); ++i) visit(i);
    check_end();
  }

 private:
  // A buffer of whole weights.
  struct Pool {
    int there = -1;                            // block gathered into it
    int released = -1;                         // latest release on the compute lane
    std::vector<int> released_on_other_lanes;  // releases on other lanes
  };

  [[noreturn]] void fail(Defect defect, int i, const std::string& text) const { fail_at(program_, rank_, i, defect, text); }
  [[noreturn]] void fail_missing(Defect defect, int block, const std::string& text) const {
    throw VerifyError(defect, rank_,
                      fmt::format("rank {}, block {} '{}': {}", rank_, block, program_.block_names[block], text));
  }
  std::string block_text(int block) const { return fmt::format("block {} '{}'", block, program_.block_names[block]); }
  bool pooled() const { return program_.shard_level == ShardLevel::parameters; }

  void visit(int i) {
    const Instruction& x = list_[i];
    switch (x.op) {
      case Op::gather:
        return gather(i);
      case Op::release:
        return release(i);
      case Op::forward:
        check_reloaded(Payload::input, x.first, x.micro, i);
        return check_whole(i);
      case Op::drop:
        return check_reloaded(Payload::input, x.first, x.micro, i);
      case Op::backward:
      case Op::backward_input:
        check_reloaded(Payload::input, x.first, x.micro, i);
        check_whole(i);
        if (x.op == Op::backward) check_gradient_buffers(i);
        return;
      case Op::backward_weight:
        return check_gradient_buffers(i);
      case Op::reduce_scatter:
        return reduce(i);
      case Op::offload:
      case Op::reload:
        return move(i);
      case Op::gather_gradients:
        return check_reloaded(Payload::optimizer, x.first, -1, i);
      case Op::update:
        for (int block = x.first; block < x.last; ++block) {
          updated_[block] = i;
          check_reloaded(Payload::weights, block, -1, i);
          check_reloaded(Payload::optimizer, block, -1, i);
        }
        return;
      default:
        return;
    }
  }

  void gather(int i) {
    const int block = list_[i].first;
    if (list_[i].axes == kInnerAxis) {
      const int kept = released_[block];
      if (kept < 0 || !list_[kept].keeps_inner_shard || !order_.before(kept, i)) {
        fail(Defect::bad_gather, i, fmt::format("no inner shard of {} was kept by its last release", block_text(block)));
      }
    } else {
      check_reloaded(Payload::weights, block, -1, i);
    }
    if (!pooled()) {
      if (updated_[block] < 0 || !order_.before(updated_[block], i)) {
        fail(Defect::bad_gather, i, fmt::format("{} has not been updated yet", block_text(block)));
      }
      if (gathered_[block] >= 0)
        fail(Defect::bad_gather, i, fmt::format("gathered already by instruction {}", gathered_[block]));
      gathered_[block] = i;
      return;
    }
    if (gathered_[block] >= 0) fail(Defect::bad_gather, i, fmt::format("gathered already by instruction {}", gathered_[block]));
    if (!buffers_.weight.empty()) occupy(pools_[buffers_.weight[block]], block, i);
    gathered_[block] = i;
  }

  void release(int i) {
    const int block = list_[i].first;
    if (gathered_[block] < 0) fail(Defect::bad_gather, i, fmt::format("{} is not gathered yet", block_text(block)));
    gathered_[block] = -1;
    released_[block] = i;
    if (!pooled() || buffers_.weight.empty()) return;
    Pool& pool = pools_[buffers_.weight[block]];
    pool.there = -1;
    if (list_[i].lane == Lane::compute) {
      pool.released = i;
    } else {
      pool.released_on_other_lanes.push_back(i);
    }
  }

  // The end of the latest release on the compute lane implies that of all earlier ones.
  void occupy(Pool& pool, int block, int i) {
    const auto gone = [&](int released) { return released < 0 || order_.before(released, i); };
    int other = pool.there;
    if (other < 0 && !gone(pool.released)) other = list_[pool.released].first;
    for (const int released : pool.released_on_other_lanes) {
      if (other < 0 && !gone(released)) other = list_[released].first;
    }
    if (other >= 0) fail(Defect::buffer_conflict, i, fmt::format("{} is still in its buffer", block_text(other)));
    pool.there = block;
  }

  void check_whole(int i) const {
    if (!pooled()) return;
    check_gathered(i, list_[i].first);
    for (const int block : program_.block_uses[list_[i].first]) check_gathered(i, block);
  }

  void check_gathered(int i, int block) const {
    if (program_.weight_numel(block) == 0 || (gathered_[block] >= 0 && order_.before(gathered_[block], i))) return;
    fail(Defect::not_gathered, i, fmt::format("the weights of {} are not gathered yet", block_text(block)));
  }

  void check_gradient_buffers(int i) {
    check_gradient_buffer(i, list_[i].first);
    for (int block : program_.block_uses[list_[i].first]) check_gradient_buffer(i, block);
  }

  void reduce(int i) {
    const int block = list_[i].first;
    gradient_in_[block] = false;
    reduced_[block] = i;
    if (!buffers_.gradient.empty()) note_user(block);
  }

  void note_user(int block) {
    std::vector<int>& users = gradient_users_[buffers_.gradient[block]];
    if (std::find(users.begin(), users.end(), block) == users.end()) users.push_back(block);
  }

  // A reduce that a compute instruction has waited for has also ended for all later ones.
  void check_gradient_buffer(int i, int block) {
    if (buffers_.gradient.empty() || buffers_.gradient[block] < 0 || program_.block_numel[block] == 0) return;
    const auto conflicts = [&](int other) {
      const bool leaving = reduced_[other] >= 0 && !order_.before(reduced_[other], i);
      return other != block && (gradient_in_[other] || leaving);
    };
    std::vector<int>& users = gradient_users_[buffers_.gradient[block]];
    for (const int other : users) {
      if (conflicts(other)) {
        fail(Defect::buffer_conflict, i, fmt::format("gradients of {} are still in its buffer", block_text(other)));
      }
    }
    users.clear();
    note_user(block);
    gradient_in_[block] = true;
  }

  using Thing = std::tuple<Payload, int, int>;  // block, micro-batch

  static Thing thing_of(const Instruction& x) { return {x.what, x.first, x.what == Payload::input ? x.micro : -1}; }

  // Optimizer state and shards that the list moves are offloaded when a step begins.
  void move(int i) {
    const Instruction& x = list_[i];
    const Thing thing = thing_of(x);
    const auto last = moved_.find(thing);
    const bool away = last == moved_.end() ? x.what != Payload::input : list_[last->second].op == Op::offload;
    if ((x.op == Op::reload) != away) fail(Defect::bad_move, i, away ? "it is offloaded already" : "it is in memory already");
    if (last != moved_.end() && !order_.before(last->second, i)) {
      fail(Defect::bad_move, i, fmt::format("it does not wait for instruction {}", last->second));
    }
    const auto used = used_.find(thing);
    if (used != used_.end() && !order_.before(used->second, i)) {
      fail(Defect::bad_move, i, fmt::format("instruction {} may not have finished with it", used->second));
    }
    moved_[thing] = i;
  }

  bool ever_moved(const Thing& thing) {
    if (ever_moved_.empty()) {
      for (const Instruction& x : list_) {
        if (x.op == Op::offload || x.op == Op::reload) ever_moved_[thing_of(x)] = true;
      }
      ever_moved_[{Payload::none, -1, -1}] = true;
    }
    return ever_moved_.count(thing) != 0;
  }

  void check_reloaded(Payload what, int block, int micro, int i) {
    const Thing thing{what, block, micro};
    if (!ever_moved(thing)) return;
    used_[thing] = i;
    const auto last = moved_.find(thing);
    if (last == moved_.end() && what == Payload::input) return;
    if (last != moved_.end() && list_[last->second].op == Op::reload && order_.before(last->second, i)) return;
    fail(Defect::bad_move, i, fmt::format("the {} of {} is not in memory yet", name(what), block_text(block)));
  }

  void check_end() const {
    for (const int block : held_blocks(list_, program_.block_uses)) {
      if (pooled() && gathered_[block] >= 0) fail_missing(Defect::bad_gather, block, "gathered and never released");
      const bool wants = !pooled() && program_.shards > 1 && program_.block_numel[block] > 0;
      if (wants && gathered_[block] < 0) {
        fail_missing(Defect::bad_gather, block, "the other ranks' shards are not gathered after the update");
      }
    }
    for (const auto& [thing, i] : moved_) {
      const bool state = std::get<0>(thing) != Payload::input;
      if (state != (list_[i].op == Op::offload)) fail(Defect::bad_move, i, "the step ends without the reverse move");
    }
  }

  const Program& program_;
  const InstructionList& list_;
  int rank_;
  const Buffers& buffers_;
  Order order_;
  std::vector<int> gathered_, released_, updated_;  // by block: the latest instruction, or -1
  std::vector<Pool> pools_;                         // by weight buffer
  std::vector<std::vector<int>> gradient_users_;    // by gradient buffer: blocks that may still be in it
  std::vector<bool> gradient_in_;                   // by block
  std::vector<int> reduced_;                        // by block: latest reduce_scatter, or -1
  std::map<Thing, int> moved_, used_;               // latest instruction
  std::map<Thing, bool> ever_moved_;
};

}  // namespace

void check_state(const Program& program, int rank) { StateCheck(program, rank).run(); }

}  // namespace weft
