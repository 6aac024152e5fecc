#include "weft/program/simulate/work_time.h"

#include <algorithm>

namespace weft {
namespace {

bool computes(Op op) {
  return op == Op::forward || is_backward(op) || op == Op::loss || op == Op::combine || op == Op::squares || op == Op::norm ||
         op == Op::update;
}

}  // namespace

WorkTime::WorkTime(const Program& program, const Hardware& hardware)
    : program_(program), hardware_(hardware), rate_(hardware.peak_flops(program.weight_bytes) * hardware.efficiency) {
  for (const std::string& name : program.block_names) times_.push_back(find_block_time(hardware, name));
}

double WorkTime::seconds(const Instruction& x) const {
  if (!computes(x.op)) return 0.0;
  const std::optional<double> known = measured(x);
  return hardware_.launch_s + (known ? *known : std::max(x.flops / rate_, moved_bytes(x) / hardware_.memory_bytes_per_s));
}

std::optional<double> WorkTime::measured(const Instruction& x) const {
  if (x.op == Op::loss) return hardware_.loss_s;
  if (x.op == Op::update && hardware_.update_s_per_element) return *hardware_.update_s_per_element * owned(x);
  const BlockTime* time = takes_one_block(x.op) ? times_[x.first] : nullptr;
  if (time == nullptr) return {};
  switch (x.op) {
    case Op::forward:
      return time->forward_s;
    case Op::backward:
      if (!time->backward_s && time->input_s && time->weight_s) return *time->input_s + *time->weight_s;
      return time->backward_s;
    case Op::backward_input:
      return time->input_s;
    case Op::backward_weight:
      return time->weight_s;
    default:
      return {};
  }
}

double WorkTime::moved_bytes(const Instruction& x) const {
  const double gradient = program_.gradient_bytes;
  const double weight = program_.weight_bytes;
  switch (x.op) {
    case Op::combine:
      return 3.0 * gradient * elements(x);
    case Op::squares:
      return gradient * elements(x);
    case Op::norm:
      return gradient * owned(x);
    case Op::update:
      return (gradient + 6.0 * kFloatBytes + (weight < kFloatBytes ? weight : 0.0)) * owned(x);
    default: {
      const double activations = 2.0 * static_cast<double>(x.allocates + x.frees);
      return activations + (weight + (adds_gradients(x.op) ? gradient : 0.0)) * elements(x);
    }
  }
}

double WorkTime::copy_seconds(const Instruction& x) const {
  check_known(hardware_, hardware_.offload, "offload", "moving state out");
  return x.copy_bytes > 0 ? hardware_.offload.seconds(static_cast<double>(x.copy_bytes)) : 0.0;
}

double WorkTime::elements(const Instruction& x) const {
  double sum = 0.0;
  for (int block = x.first; block < x.last; ++block) sum += static_cast<double>(program_.block_numel[block]);
  return sum;
}

double WorkTime::owned(const Instruction& x) const { return elements(x) / program_.shards; }

}  // namespace weft
