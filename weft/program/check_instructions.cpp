#include "weft/program/check_instructions.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/program/defect.h"
#include "weft/program/limits.h"

namespace weft {
namespace {

bool works_on_blocks(const Instruction& x) {
  return takes_one_block(x.op) || x.op == Op::combine || x.op == Op::reduce || x.op == Op::norm || x.op == Op::update;
}

class InstructionsCheck {
 public:
  InstructionsCheck(const Program& program, int list, int rank)
      : program_(program), list_(program.lists[list]), buffers_(program.buffers[list]), number_(list), rank_(rank) {}

  void run() {
    if (list_.size() > INT32_MAX / 2) {
      throw VerifyError(Defect::out_of_range, rank_,
                        fmt::format("program: list {} has {} instructions", number_, list_.size()));
    }
    for (int i = 0; i < static_cast<int>(list_.size()); ++i) {
      check_kinds(i);
      check_lane(i);
      check_ranges(i);
      check_buffers(i);
      check_waits(i);
      check_costs(i);
    }
  }

 private:
  [[noreturn]] void fail(Defect defect, int i, const std::string& text) const {
    const std::string who = rank_ < 0 ? fmt::format("list {}, which no rank runs", number_) : fmt::format("rank {}", rank_);
    throw VerifyError(defect, rank_,
                      fmt::format("{}, instruction {} ({}): {}", who, i, describe(list_[i], program_.block_names), text));
  }

  void check_kinds(int i) const {
    const Instruction& x = list_[i];
    const bool known = x.op <= Op::update && x.lane <= Lane::copy && x.axes.is_known() && x.what <= Payload::sum;
    if (!known) fail(Defect::out_of_range, i, "unknown op, lane, axis or payload");
  }

  // Accumulated gradients rely on sequential execution.
  void check_lane(int i) const {
    const Instruction& x = list_[i];
    const bool computes = x.op == Op::forward || x.op == Op::loss || is_backward(x.op);
    if (computes && x.lane != Lane::compute) fail(Defect::out_of_range, i, "not on the compute lane");
  }

  void check_ranges(int i) const {
    const Instruction& x = list_[i];
    const int blocks = program_.num_blocks();
    if (x.micro < (takes_micro_batch(x) ? 0 : -1) || x.micro >= program_.micro_batches) {
      fail(Defect::out_of_range, i, fmt::format("micro-batch {} of {}", x.micro, program_.micro_batches));
    }
    if (!has_blocks(x, blocks)) fail(Defect::out_of_range, i, fmt::format("blocks [{}, {}) of {}", x.first, x.last, blocks));
    if (takes_one_block(x.op) && x.last != x.first + 1) {
      fail(Defect::out_of_range, i, fmt::format("takes one block, not {}", x.last - x.first));
    }
    if (tied_block(x) >= 0 && x.last == x.first) fail(Defect::wrong_axis, i, "over ranks that share no block");
    if (is_transfer(x.op) && (x.peer < 0 || x.peer >= program_.mesh.pp)) {
      fail(Defect::out_of_range, i, fmt::format("pipeline rank {} of {}", x.peer, program_.mesh.pp));
    }
    const bool between_stages = x.what == Payload::activation || x.what == Payload::gradient;
    const bool between_copies = x.what == Payload::batch || x.what == Payload::weights || x.what == Payload::sum;
    if (is_transfer(x.op) && !between_stages && !(between_copies && program_.copies > 1)) {
      fail(Defect::out_of_range, i,
           program_.copies > 1 ? "a payload that ranks never send" : "neither an activation nor its gradient");
    }
    if (is_transfer(x.op) && x.what == Payload::batch && x.first != 0) {
      fail(Defect::out_of_range, i, fmt::format("block {} takes no micro-batch, but the first one does", x.first));
    }
    const bool moves = x.op == Op::offload || x.op == Op::reload;
    if (moves && x.what != Payload::input && x.what != Payload::weights && x.what != Payload::optimizer) {
      fail(Defect::out_of_range, i, "neither an input, weights nor optimizer state");
    }
    if (x.slot < (x.op == Op::combine ? 0 : -1) || x.slot >= program_.slots) {
      fail(Defect::out_of_range, i, fmt::format("slot {} of {}", x.slot, program_.slots));
    }
  }

  // Gathered or reduced blocks need a buffer if blocks share buffers.
  void check_buffers(int i) const {
    const Instruction& x = list_[i];
    const auto lacks = [&x](const std::vector<int>& of_block) { return !of_block.empty() && of_block[x.first] < 0; };
    const bool weights = (x.op == Op::gather || x.op == Op::release) && lacks(buffers_.weight);
    const bool gradients = x.op == Op::reduce_scatter && lacks(buffers_.gradient);
    if (weights || gradients)
      fail(Defect::misplaced_block, i,
           fmt::format("block {} '{}' is not on this rank", x.first, program_.block_names[x.first]));
  }

  void check_waits(int i) const {
    const int size = static_cast<int>(list_.size());
    int before = -1;
    for (const int wait : list_[i].waits) {
      if (wait < 0 || wait >= size) {
        fail(Defect::bad_wait, i, fmt::format("waits for instruction {}, but the list has {}", wait, size));
      }
      if (wait >= i) fail(Defect::bad_wait, i, fmt::format("waits for instruction {}, which does not come before it", wait));
      if (wait <= before) {
        fail(Defect::bad_wait, i, fmt::format("waits for instruction {} after {}: must be ascending", wait, before));
      }
      before = wait;
    }
  }

  void check_costs(int i) {
    const Instruction& x = list_[i];
    if (x.allocates < 0 || x.frees < 0 || x.peak < 0) {
      fail(Defect::bad_bytes, i,
           fmt::format("it allocates {} bytes, frees {} and peaks at {}: must not be negative", x.allocates, x.frees, x.peak));
    }
    if (x.wire_bytes < 0) fail(Defect::bad_bytes, i, fmt::format("it sends {} bytes: must be at least 0", x.wire_bytes));
    if (x.copy_bytes < 0) fail(Defect::bad_bytes, i, fmt::format("it copies {} bytes: must be at least 0", x.copy_bytes));
    for (const int64_t bytes : {x.allocates, x.frees, x.peak, x.wire_bytes, x.copy_bytes}) {
      if (bytes > kMostBytes) fail(Defect::bad_bytes, i, fmt::format("{} bytes: must be at most {}", bytes, kMostBytes));
    }
    int64_t& live = x.op == Op::combine ? partials_ : activations_;
    live += x.allocates - x.frees;
    if (live > kMostBytes || live < -kMostBytes) {
      fail(Defect::bad_bytes, i, fmt::format("after it {} bytes are live: must be at most {}", live, kMostBytes));
    }
    sent_ += x.wire_bytes;
    if (sent_ > kMostBytes) {
      fail(Defect::bad_bytes, i, fmt::format("with its {} bytes the total sent exceeds {}", x.wire_bytes, kMostBytes));
    }
    if (!std::isfinite(x.flops) || x.flops < 0.0) {
      fail(Defect::out_of_range, i, fmt::format("{} operations: must be a non-negative number", x.flops));
    }
  }

  const Program& program_;
  const InstructionList& list_;
  const Buffers& buffers_;
  int number_, rank_;
  int64_t activations_ = 0, partials_ = 0;  // live after the instructions so far
  int64_t sent_ = 0;
};

}  // namespace

bool has_blocks(const Instruction& x, int num_blocks) {
  return x.first >= 0 && x.first <= x.last && x.last <= num_blocks && (x.first < x.last || !works_on_blocks(x));
}

void check_instructions(const Program& program, int list, int rank) { InstructionsCheck(program, list, rank).run(); }

}  // namespace weft
