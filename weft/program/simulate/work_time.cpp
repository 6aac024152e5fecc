#include "weft/program/simulate/work_time.h"

#include <algorithm>

#include "weft/program/simulate/operator_time.h"
#include "weft/program/simulate/software.h"

namespace weft {
namespace {

bool computes(Op op) {
  return op == Op::forward || is_backward(op) || op == Op::loss || op == Op::combine || op == Op::squares || op == Op::norm ||
         op == Op::update;
}

ComputingTimes moving(double bytes, int launches, const Hardware& hardware) {
  return {.memory_bound = memory_bound_seconds(bytes, launches, hardware)};
}

}  // namespace

WorkTime::WorkTime(const Program& program, const Hardware& hardware)
    : program_(program), hardware_(hardware), rate_(hardware.peak_flops(program.weight_bytes) * hardware.efficiency) {
  for (const std::string& name : program.block_names) times_.push_back(find_block_time(hardware, name));
  operators_.resize(times_.size(), nullptr);
  if (!hardware.operators) return;
  loss_ = hardware.software ? moving(loss_bytes(*hardware.software, program.loss_operators), 1, hardware)
                            : operator_times(program.loss_operators, hardware);
  for (size_t b = 0; b < std::min(times_.size(), program.operators.size()); ++b) {
    const SharedOperators& of = program.operators[b];
    if (!of) continue;
    const auto [found, is_new] = priced_.try_emplace(of);
    operators_[b] = &found->second;
    if (!is_new) continue;
    if (hardware.software) found->second = software_times(*of, hardware);
    for (int pass = 0; pass < kNumPasses && !hardware.software; ++pass) {
      found->second[pass] = operator_times(of->passes[pass], hardware);
    }
  }
}

ComputingTimes WorkTime::times(const Instruction& x) const {
  if (!computes(x.op)) return {};
  const std::optional<double> known = measured(x);
  ComputingTimes times = known ? ComputingTimes{.overhead = *known} : unmeasured(x);
  times.overhead += hardware_.launch_s;
  return times;
}

ComputingTimes WorkTime::unmeasured(const Instruction& x) const {
  if (const std::optional<ComputingTimes> counted = by_operators(x)) return *counted;
  return {.overhead = std::max(x.flops / rate_, moved_bytes(x) / hardware_.memory_bytes_per_s)};
}

std::optional<ComputingTimes> WorkTime::by_operators(const Instruction& x) const {
  if (!hardware_.operators) return {};
  if (x.op == Op::loss) return program_.loss_operators.empty() ? std::nullopt : std::optional(loss_);
  if (x.op == Op::update) return ComputingTimes{.memory_bound = update_seconds(moved_bytes(x), x.last - x.first, hardware_)};
  if (x.op != Op::forward && !is_backward(x.op)) return moving(moved_bytes(x), x.last - x.first, hardware_);
  const TimesByPass* passes = operators_[x.first];
  if (passes == nullptr) return {};
  ComputingTimes times = (*passes)[static_cast<size_t>(pass_of(x))];
  if (hardware_.software && adds_gradients(x.op))
    times += moving(hardware_.software->accumulate_bytes * elements(x), 0, hardware_);
  return times;
}

// A backward adds to the gradients of the micro-batch before, unless that was of another slot or its sum was taken away.
BlockPass WorkTime::pass_of(const Instruction& x) const {
  const bool takes_sums = program_.shards > 1 && program_.shard_level >= ShardLevel::gradients && !program_.keep_order;
  const bool adds = !takes_sums && x.micro % (program_.micro_batches / program_.slots) != 0;
  switch (x.op) {
    case Op::backward:
      return adds ? BlockPass::adding_backward : BlockPass::backward;
    case Op::backward_input:
      return BlockPass::input;
    case Op::backward_weight:
      return adds ? BlockPass::adding_weight : BlockPass::weight;
    default:
      return BlockPass::forward;
  }
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
      if (hardware_.software) return hardware_.software->update_bytes * owned(x);
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
