#include "weft/program/build/master_lists.h"

#include "weft/program/build/block_instructions.h"
#include "weft/program/copies.h"

namespace weft {
namespace {

Instruction batch_transfer(const ModelCost& model, Op op, int micro, int peer) {
  Instruction x = {.op = op, .lane = Lane::comm, .first = 0, .last = 1, .micro = micro, .what = Payload::batch, .peer = peer};
  if (op == Op::receive) {
    x.allocates = model.input_bytes;
  } else {
    x.wire_bytes = x.frees = model.input_bytes;
  }
  return x;
}

class MasterLists {
 public:
  MasterLists(const ModelCost& model, const Program& program)
      : model_(model), program_(program), last_block_(static_cast<int>(model.blocks.size()) - 1) {}

  InstructionList of_master() {
    list_.clear();
    for (int micro = 0; micro < program_.micro_batches; ++micro) list_.push_back(load_inputs(model_, micro));
    for_others([this](int micro, int rank) { list_.push_back(batch_transfer(model_, Op::send, micro, rank)); });
    for_own(0, [this](int micro) { forward(micro); });
    for_others([this](int micro, int rank) { transfer(Op::receive, Payload::activation, micro, rank); });
    for (int micro = 0; micro < program_.micro_batches; ++micro) list_.push_back(loss_of(model_, micro));
    for_others([this](int micro, int rank) {
      transfer(Op::send, Payload::gradient, micro, rank);
      list_.back().frees += model_.blocks[last_block_].output_bytes;  // also frees the output
    });
    for_own(0, [this](int micro) { backward(micro); });
    return list_;
  }

  InstructionList of_worker(int rank) {
    list_.clear();
    for_own(rank, [this](int micro) { list_.push_back(batch_transfer(model_, Op::receive, micro, 0)); });
    for_own(rank, [this](int micro) {
      forward(micro);
      transfer(Op::send, Payload::activation, micro, 0);
    });
    for_own(rank, [this](int micro) { transfer(Op::receive, Payload::gradient, micro, 0); });
    for_own(rank, [this](int micro) { backward(micro); });
    return list_;
  }

 private:
  template <class Visit>
  void for_own(int rank, const Visit& visit) const {
    const MicroRange own = micros_run(program_, rank);
    for (int micro = own.first; micro < own.last; ++micro) visit(micro);
  }
  template <class Visit>
  void for_others(const Visit& visit) const {
    for (int rank = 1; rank < program_.mesh.pp; ++rank) {
      for_own(rank, [&](int micro) { visit(micro, rank); });
    }
  }
  void forward(int micro) {
    for (int block = 0; block <= last_block_; ++block) list_.push_back(forward_of(model_, block, micro));
  }
  void backward(int micro) {
    for (int block = last_block_; block >= 0; --block) {
      list_.push_back(backward_of(model_, Op::backward, block, micro, false));
    }
  }
  void transfer(Op op, Payload what, int micro, int peer) {
    list_.push_back(transfer_of(model_, op, what, last_block_, micro, peer));
  }

  const ModelCost& model_;
  const Program& program_;
  int last_block_;
  InstructionList list_;
};

}  // namespace

std::vector<InstructionList> master_lists(const ModelCost& model, const Program& program) {
  MasterLists lists(model, program);
  std::vector<InstructionList> result = {lists.of_master()};
  result.reserve(program.mesh.pp);
  for (int rank = 1; rank < program.mesh.pp; ++rank) result.push_back(lists.of_worker(rank));
  return result;
}

}  // namespace weft
