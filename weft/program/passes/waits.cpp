#include "weft/program/passes/waits.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "weft/program/check_program.h"

namespace weft {
namespace {

enum class Datum : uint8_t {
  // Per block and micro-batch.
  input,  // the micro-batch
  kept,   // activations kept for backward
  output,
  output_gradient,
  deferred,  // deferred part of a split backward
  loss,
  forward,  // mark of an earlier run
  // Per block.
  gradient,         // whole gradients, as backward writes them
  gradient_buffer,  // memory of the gradients
  owned_gradient,   // result of reduce_scatter
  partial,
  weights,        // whole
  weight_buffer,  // memory of the weights
  inner_shard,    // of the weights, from forward to backward
  shard,          // this rank's weights
  state,          // optimizer state
  squares,
  used,  // flags of parameters with gradients
  total,
  norm
};
constexpr size_t kNumData = static_cast<size_t>(Datum::norm) + 1;

constexpr bool is_of_micro_batch(Datum datum) { return datum <= Datum::forward; }

// Last writer of each datum: a row per written datum and block, with an entry per micro-batch.
class Writers {
 public:
  explicit Writers(const InstructionList& list) {
    for (const Instruction& x : list) micro_batches_ = std::max(micro_batches_, x.micro + 1);
  }

  // -1 if not written
  int get(Datum datum, int block, int micro) const {
    const auto& rows = rows_[static_cast<size_t>(datum)];
    const auto row = static_cast<size_t>(block + 1);
    return row >= rows.size() || rows[row].empty() ? -1 : rows[row][place(datum, micro)];
  }
  void set(Datum datum, int block, int micro, int at) {
    auto& rows = rows_[static_cast<size_t>(datum)];
    const auto row = static_cast<size_t>(block + 1);
    if (row >= rows.size()) rows.resize(row + 1);
    if (rows[row].empty()) rows[row].assign(is_of_micro_batch(datum) ? micro_batches_ + 1 : 1, -1);
    rows[row][place(datum, micro)] = at;
  }

 private:
  static size_t place(Datum datum, int micro) { return is_of_micro_batch(datum) ? static_cast<size_t>(micro + 1) : 0; }

  int micro_batches_ = 0;
  std::array<std::vector<std::vector<int>>, kNumData> rows_;
};

class Linker {
 public:
  Linker(InstructionList list, const Program& program, const Buffers& buffers)
      : list_(std::move(list)), program_(program), buffers_(buffers), weight_sends_(program.num_blocks()), writers_(list_) {}

  InstructionList run() {
    for (at_ = 0; at_ < static_cast<int>(list_.size()); ++at_) {
      waits_.clear();
      visit(list_[at_]);
      if (list_[at_].op == Op::send) sends_.push_back(at_);
      if (is_collective(list_[at_])) waits_.insert(waits_.end(), sends_.begin(), sends_.end());
      if (is_collective(list_[at_])) sends_.clear();
      list_[at_].waits = needed();
    }
    return std::move(list_);
  }

 private:
  void visit(const Instruction& x) {
    switch (x.op) {
      case Op::load:
        return write(Datum::input, 0, x.micro);
      case Op::gather:
        read(x.axes == kInnerAxis ? Datum::inner_shard : Datum::shard, x.first, 0);
        occupy(buffers_.weight, Datum::weight_buffer, x.first);
        return write(Datum::weights, x.first, 0);
      case Op::release:
        read(Datum::weights, x.first, 0);
        if (x.keeps_inner_shard) write(Datum::inner_shard, x.first, 0);
        return occupy(buffers_.weight, Datum::weight_buffer, x.first);
      case Op::forward:
        return forward(x);
      case Op::drop:
        return change(Datum::kept, x.first, x.micro);
      case Op::offload:
      case Op::reload:
        return move(x);
      case Op::loss:
        return loss(x);
      case Op::backward:
      case Op::backward_input:
      case Op::backward_weight:
        return backward(x);
      case Op::send:
        if (x.what == Payload::weights) weight_sends_[x.first].push_back(at_);
        return read(datum_of(x.what), x.first, x.micro);
      case Op::receive:
        return receive(x);
      case Op::combine:
        change_blocks(Datum::partial, x);
        return change_blocks(Datum::gradient, x);
      case Op::reduce_scatter:
        change(Datum::gradient, x.first, 0);
        occupy(buffers_.gradient, Datum::gradient_buffer, x.first);
        return change(Datum::owned_gradient, x.first, 0);
      case Op::reduce:
        if (program_.shard_level != ShardLevel::none) return change_blocks(Datum::owned_gradient, x);
        return change_blocks(Datum::gradient, x);
      case Op::squares:  // later writers and takers of the gradients wait for it
        change(Datum::gradient, x.first, 0);
        return change(Datum::squares, 0, 0);
      case Op::reduce_loss:
        for (int micro : micros_) read(Datum::loss, 0, micro);
        read(Datum::squares, 0, 0);
        read(Datum::used, 0, 0);
        return write(Datum::total, 0, 0);
      case Op::norm:
        read(Datum::total, 0, 0);
        read_gradients(x);
        return write(Datum::norm, 0, 0);
      case Op::gather_gradients:
        read_for_update(x);
        return change(Datum::state, x.first, 0);
      case Op::update:
        read_for_update(x);
        change_blocks(Datum::state, x);
        return change_blocks(Datum::shard, x);
    }
  }

  void backward(const Instruction& x) {
    const bool has_input = x.op != Op::backward_weight, has_weights = x.op != Op::backward_input;
    has_input ? read_for_backward(x) : read(Datum::deferred, x.first, x.micro);
    if (has_weights) add_all_gradients(x.first);
    if (has_weights && program_.flagged > 0) write(Datum::used, 0, 0);
    if (!has_weights) write(Datum::deferred, x.first, x.micro);
    if (has_input) write(Datum::output_gradient, x.first - 1, x.micro);
  }

  static Datum datum_of(Payload what) {
    switch (what) {
      case Payload::gradient:
        return Datum::output_gradient;
      case Payload::batch:
        return Datum::input;
      case Payload::weights:
        return Datum::weights;
      case Payload::sum:
        return Datum::gradient;
      default:
        return Datum::output;
    }
  }
  // A received sum is added to the gradients.
  void receive(const Instruction& x) {
    const Datum datum = datum_of(x.what);
    x.what == Payload::sum ? change(datum, x.first, x.micro) : write(datum, x.first, x.micro);
  }
  void forward(const Instruction& x) {
    read_weights(x.first);
    // Forward changes running statistics, which are then restored, so it must not run while they are being sent.
    waits_.insert(waits_.end(), weight_sends_[x.first].begin(), weight_sends_[x.first].end());
    read_input(x);
    if (program_.takes_targets(x.first)) read(Datum::input, 0, x.micro);
    write(Datum::kept, x.first, x.micro);
    if (writers_.get(Datum::forward, x.first, x.micro) >= 0) return;  // recompute produces nothing new
    write(Datum::forward, x.first, x.micro);
    write(Datum::output, x.first, x.micro);
  }
  void loss(const Instruction& x) {
    const int last_block = program_.num_blocks() - 1;
    read(Datum::input, 0, x.micro);
    read(Datum::output, last_block, x.micro);
    write(Datum::loss, 0, x.micro);
    micros_.push_back(x.micro);
    write(Datum::output_gradient, last_block, x.micro);
  }
  void read_for_update(const Instruction& x) {
    read(Datum::total, 0, 0);
    read(Datum::norm, 0, 0);
    read_gradients(x);
  }

  void read_input(const Instruction& x) {
    x.first == 0 ? read(Datum::input, 0, x.micro) : read(Datum::output, x.first - 1, x.micro);
  }
  void read_weights(int block) {
    read(Datum::weights, block, 0);
    for (int used : program_.block_uses[block]) read(Datum::weights, used, 0);
  }
  void read_for_backward(const Instruction& x) {
    read_weights(x.first);
    read(Datum::kept, x.first, x.micro);
    read(Datum::output_gradient, x.first, x.micro);
  }
  void add_all_gradients(int block) {
    add_gradients(block);
    for (int used : program_.block_uses[block]) add_gradients(used);
  }
  void add_gradients(int block) {
    change(Datum::gradient, block, 0);
    occupy(buffers_.gradient, Datum::gradient_buffer, block);
  }
  void read_gradients(const Instruction& x) {
    for (int block = x.first; block < x.last; ++block) {
      read(Datum::gradient, block, 0);
      read(Datum::owned_gradient, block, 0);
    }
  }
  // Waits for the last user of the block's buffer.
  void occupy(const std::vector<int>& buffer_of_block, Datum datum, int block) {
    const int64_t numel = datum == Datum::weight_buffer ? program_.weight_numel(block) : program_.block_numel[block];
    if (!buffer_of_block.empty() && numel > 0) change(datum, buffer_of_block[block], 0);
  }
  // An offload waits for readers and writers of the data.
  void move(const Instruction& x) {
    if (x.what == Payload::optimizer) return change(Datum::state, x.first, 0);
    if (x.what == Payload::input) {
      read(Datum::kept, x.first, x.micro);
      return change(Datum::output, x.first - 1, x.micro);
    }
    if (x.op == Op::offload) read(Datum::weights, x.first, 0);
    change(Datum::shard, x.first, 0);
  }

  void read(Datum datum, int block, int micro) {
    const int writer = writers_.get(datum, block, micro);
    if (writer >= 0) waits_.push_back(writer);
  }
  void write(Datum datum, int block, int micro) { writers_.set(datum, block, micro, at_); }
  void change(Datum datum, int block, int micro) {
    read(datum, block, micro);
    write(datum, block, micro);
  }
  void change_blocks(Datum datum, const Instruction& x) {
    for (int block = x.first; block < x.last; ++block) change(datum, block, 0);
  }

  const std::vector<int>& needed() {
    std::sort(waits_.begin(), waits_.end());
    waits_.erase(std::unique(waits_.begin(), waits_.end()), waits_.end());
    const auto on_compute = [this](int i) { return list_[i].lane == Lane::compute; };
    const auto latest = std::find_if(waits_.rbegin(), waits_.rend(), on_compute);
    const int last = latest == waits_.rend() ? -1 : *latest;
    std::erase_if(waits_, [&](int i) { return on_compute(i) && i != last; });
    return waits_;
  }

  InstructionList list_;
  const Program& program_;
  const Buffers& buffers_;
  int at_ = 0;
  std::vector<int> waits_;                      // of the current instruction
  std::vector<int> micros_;                     // with a known loss
  std::vector<int> sends_;                      // since the last collective
  std::vector<std::vector<int>> weight_sends_;  // by block
  Writers writers_;
};

}  // namespace

InstructionList link_waits(InstructionList list, const Program& program, const Buffers& buffers) {
  check_blocks(list, program, buffers);
  return Linker(std::move(list), program, buffers).run();
}

}  // namespace weft
