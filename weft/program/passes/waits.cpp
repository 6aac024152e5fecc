#include "weft/program/passes/waits.h"

#include <algorithm>
#include <unordered_map>

namespace weft {
namespace {

enum class Datum : uint64_t { input, output, output_gradient, gradient, partial, loss, total, norm };

class Linker {
 public:
  explicit Linker(const InstructionList& list) : list_(list) {
    for (const Instruction& x : list) num_blocks_ = std::max(num_blocks_, x.last);
  }

  InstructionList run() {
    for (at_ = 0; at_ < static_cast<int>(list_.size()); ++at_) {
      waits_.clear();
      visit(list_[at_]);
      list_[at_].waits = needed();
    }
    return std::move(list_);
  }

 private:
  void visit(const Instruction& x) {
    switch (x.op) {
      case Op::load:
        return write(Datum::input, 0, x.micro);
      case Op::forward:
        x.first == 0 ? read(Datum::input, 0, x.micro) : read(Datum::output, x.first - 1, x.micro);
        return write(Datum::output, x.first, x.micro);
      case Op::loss:
        read(Datum::output, num_blocks_ - 1, x.micro);
        write(Datum::loss, 0, x.micro);
        micros_.push_back(x.micro);
        return write(Datum::output_gradient, num_blocks_ - 1, x.micro);
      case Op::backward:
        read(Datum::output, x.first, x.micro);
        read(Datum::output_gradient, x.first, x.micro);
        change(Datum::gradient, x);
        return write(Datum::output_gradient, x.first - 1, x.micro);
      case Op::combine:
        change(Datum::partial, x);
        return change(Datum::gradient, x);
      case Op::reduce:
        return change(Datum::gradient, x);
      case Op::reduce_loss:
        for (int micro : micros_) read(Datum::loss, 0, micro);
        return write(Datum::total, 0, 0);
      case Op::norm:
        read(Datum::total, 0, 0);
        read_blocks(Datum::gradient, x);
        return write(Datum::norm, 0, 0);
      case Op::update:
        read(Datum::total, 0, 0);
        read(Datum::norm, 0, 0);
        return read_blocks(Datum::gradient, x);
    }
  }

  static uint64_t key(Datum datum, int block, int micro) {
    return static_cast<uint64_t>(datum) << 56 | static_cast<uint64_t>(block + 1) << 28 | static_cast<uint64_t>(micro + 1);
  }
  void read(Datum datum, int block, int micro) {
    const auto writer = writer_.find(key(datum, block, micro));
    if (writer != writer_.end()) waits_.push_back(writer->second);
  }
  void write(Datum datum, int block, int micro) { writer_[key(datum, block, micro)] = at_; }
  void read_blocks(Datum datum, const Instruction& x) {
    for (int block = x.first; block < x.last; ++block) read(datum, block, 0);
  }
  void change(Datum datum, const Instruction& x) {
    read_blocks(datum, x);
    for (int block = x.first; block < x.last; ++block) write(datum, block, 0);
  }

  std::vector<int> needed() {
    std::sort(waits_.begin(), waits_.end());
    waits_.erase(std::unique(waits_.begin(), waits_.end()), waits_.end());
    const auto on_compute = [this](int i) { return list_[i].lane == Lane::compute; };
    const auto latest = std::find_if(waits_.rbegin(), waits_.rend(), on_compute);
    std::vector<int> result;
    for (int i : waits_) {
      if (!on_compute(i) || i == *latest) result.push_back(i);
    }
    return result;
  }

  InstructionList list_;
  int num_blocks_ = 0;
  int at_ = 0;
  std::vector<int> waits_;   // of the instruction at hand
  std::vector<int> micros_;  // whose loss is known
  std::unordered_map<uint64_t, int> writer_;
};

}  // namespace

InstructionList link_waits(const InstructionList& list) { return Linker(list).run(); }

}  // namespace weft
