#include "weft/program/launches.h"

#include <algorithm>
#include <set>
#include <utility>

namespace weft {

namespace {

// What the engine launches besides blocks and loss; tests/device/launches_test.cpp compares it with what a device is given.
constexpr int kValues = 1, kBegin = 1;        // the step's values; zeros for the losses
constexpr int kGraph = 1;                     // a captured step
constexpr int kNotes = 1;                     // with the first ids: a place for those out of range
constexpr int kLoad = 2;                      // copies of inputs and targets
constexpr int kLoss = 1;                      // into its place
constexpr int kMark = 1;                      // losses are marked if an id was out of range
constexpr int kNorm = 2, kRead = 2;           // zeros and the sum of squares; joined with the losses, and their copy
constexpr int kUpdate = 1;                    // per weight decay
constexpr int kDivisor = 1, kNumber = 1;      // of the update, per decay the latter, if it waits for the host
constexpr int64_t kPiece = int64_t{1} << 23;  // kDeviceRangeElements (optim/update_ranges.h)
constexpr int kJudge = 1, kCopy = 1;          // the step's numbers, and their copy, if updates do without the host
constexpr int kPartial = 2;                   // partial gradients are joined and put back
constexpr int kSendShape = 2, kReceiveShape = 3;

/// Counts the launches of one list.
class Host {
 public:
  Host(const Program& program, const InstructionList& list, const ModelLaunches& launches)
      : program_(program), list_(list), launches_(launches), has_gradients_(static_cast<size_t>(program.num_blocks()), false) {}

  std::vector<HostWork> work() {
    std::vector<HostWork> all(list_.size());
    if (launches_.blocks.empty()) return all;
    for (size_t i = 0; i < list_.size(); ++i) all[i] = work_of(list_[i], i > 0 ? &list_[i - 1] : nullptr);
    if (all.empty()) return all;
    all.front().launches += kValues + kBegin;
    if (reads_late_) all.back().launches += kCopy;
    return all;
  }

 private:
  HostWork work_of(const Instruction& x, const Instruction* before) {
    if (is_transfer(x.op)) return transfer(x);
    if (x.op == Op::forward || is_backward(x.op) || x.op == Op::loss) return pass(x);
    HostWork work{.launches = is_collective(x) && program_.world_size() > 1 ? 1 : 0};
    switch (x.op) {
      case Op::load:
        work.launches += kLoad;
        break;
      case Op::combine: {
        int level = 0;
        while (((x.slot >> level) & 1) != 0) ++level;
        const bool keeps = x.slot + 1 < program_.slots;
        work.launches += (x.last - x.first) * (level + (keeps ? 1 : 0));
        if (keeps) clear(x.first, x.last);
        break;
      }
      case Op::reduce_scatter:
        work.launches += reduced_.insert(x.first).second ? 0 : 1;
        clear(x.first, x.last);
        break;
      case Op::reduce:
        if (sums_partial(x)) work.launches = x.wire_bytes > 0 ? 1 + kPartial : 0;
        break;
      case Op::squares:
        work.launches += 1;
        break;
      case Op::offload:
      case Op::reload:
        work.launches += x.copy_bytes > 0 ? 1 : 0;
        break;
      case Op::reduce_loss:
        work.launches += kMark;
        break;
      case Op::norm:
        work.launches += kNorm + (reads_late_ ? kJudge : kRead);
        work.waits = !reads_late_;
        has_read_ = true;
        break;
      case Op::gather_gradients:
      case Op::update:
        if (!has_read_) {
          work.launches += kRead;
          work.waits = has_read_ = true;
        }
        if (x.op == Op::update) work.launches += update(x, before == nullptr || before->op != Op::update);
        break;
      default:
        break;
    }
    return work;
  }

  /// Float32 gradients of updates in a row are one call per decay. Narrower ones are widened in pieces, block by block.
  int update(const Instruction& x, bool is_first) const {
    const int copies = program_.weight_bytes < kFloatBytes ? x.last - x.first : 0;
    if (program_.gradient_bytes >= kFloatBytes) {
      return copies + (is_first ? divisor_ + of_decay_ * launches_.decays : 0);
    }
    int64_t pieces = 0;
    for (int b = x.first; b < x.last; ++b) {
      const int64_t owned = program_.block_numel[static_cast<size_t>(b)] / program_.shards;
      pieces +=
          (owned + kPiece - 1) / kPiece + launches_.blocks[static_cast<size_t>(b)].decays - 1;  // the shard with all decays
    }
    return copies + divisor_ * (x.last - x.first) + static_cast<int>(pieces) * (1 + of_decay_);
  }

  HostWork pass(const Instruction& x) {
    HostWork work{.launches = static_cast<int>(program_.inner_calls(x).size())};
    if (!has_ids_ && (x.op == Op::loss || (x.op == Op::forward && x.first == 0))) {
      work.launches += kNotes;
      has_ids_ = true;
    }
    if (x.op == Op::loss) {
      work.launches += launches_.loss + kLoss;
      return work;
    }
    const BlockLaunches& block = launches_.blocks[static_cast<size_t>(x.first)];
    const bool adds = has_gradients_[static_cast<size_t>(x.first)];
    if (x.op == Op::forward) work.launches += block.forward;
    if (x.op == Op::backward) work.launches += adds ? block.adding_backward : block.backward;
    if (x.op == Op::backward_input) work.launches += block.input;
    if (x.op == Op::backward_weight) work.launches += adds ? block.adding_weight : block.weight;
    if (adds_gradients(x.op)) has_gradients_[static_cast<size_t>(x.first)] = true;
    return work;
  }

  /// The first message of a block's output in a step has its shape before it, which the receiving host waits for, unless shapes
  /// stay from step to step.
  HostWork transfer(const Instruction& x) {
    HostWork work{.launches = 1};
    const bool has_shape = launches_.shapes_vary && (x.what == Payload::activation || x.what == Payload::batch);
    const bool is_first = has_shape && shapes_.insert({x.what == Payload::batch ? -1 : x.first, {x.peer, x.op}}).second;
    if (!is_first) return work;
    work.launches += x.op == Op::send ? kSendShape : kReceiveShape;
    work.waits = x.op == Op::receive;
    return work;
  }

  void clear(int first, int last) { std::fill(has_gradients_.begin() + first, has_gradients_.begin() + last, false); }

  const Program& program_;
  const InstructionList& list_;
  const ModelLaunches& launches_;
  std::vector<bool> has_gradients_;  // by block
  const bool reads_late_ = reads_late(program_, launches_);
  const int divisor_ = reads_late_ ? 0 : kDivisor, of_decay_ = kUpdate + (reads_late_ ? 0 : kNumber);
  bool has_ids_ = false, has_read_ = false;
  std::set<int> reduced_;
  std::set<std::pair<int, std::pair<int, Op>>> shapes_;
};

}  // namespace

std::vector<HostWork> host_work(const Program& program, const InstructionList& list, const ModelLaunches& launches) {
  return Host(program, list, launches).work();
}

bool reads_late(const Program& program, const ModelLaunches& launches) { return launches.reads_late && program.flagged == 0; }

bool can_be_captured(const Program& program, const ModelLaunches& launches) {
  const OffloadOptions& offload = program.offload;
  return reads_late(program, launches) && !launches.shapes_vary && !offload.activations && !offload.weights &&
         !offload.optimizer;
}

std::vector<HostWork> captured_work(const InstructionList& list) {
  std::vector<HostWork> work(list.size());
  if (work.empty()) return work;
  const auto loads = std::count_if(list.begin(), list.end(), [](const Instruction& x) { return x.op == Op::load; });
  work.front() = HostWork{.launches = 2 * kLoad * static_cast<int>(loads) + kValues + kGraph + kCopy, .is_graph = true};
  return work;
}

}  // namespace weft
