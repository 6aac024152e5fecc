#include "weft/train/trainer/parameter_histograms.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "weft/report/records/float_counts.h"
#include "weft/train/trainer/checkpoint_state.h"
#include "weft/train/trainer/trainer_state.h"

namespace weft {
namespace {

constexpr size_t kCountedAtOnce = 64;  ///< parameters whose counts are summed

struct ParameterCounts {
  FloatCounts weights, gradients;
};

/// In the threads of the trainer.
void count_values(const StatePart& part, double divisor, FloatCounts& counts) {
  const StatePart own = narrow_to_runs(part);
  const at::Tensor memory = own.memory.to(at::TensorOptions(at::kCPU).dtype(at::kFloat)).contiguous();
  const auto* values = memory.const_data_ptr<float>();
  std::mutex mutex;
  for (const StateRun& run : own.runs) {
    constexpr int64_t kGrain = int64_t{1} << 16;
    if (run.numel < kGrain) {
      counts.add(values + run.memory_begin, run.numel, divisor);
      continue;
    }
    at::parallel_for(0, run.numel, kGrain, [&](int64_t begin, int64_t end) {
      FloatCounts here;
      here.add(values + run.memory_begin + begin, end - begin, divisor);
      const std::lock_guard lock(mutex);
      counts.add(here);
    });
  }
}

/// What this rank counts of its blocks, by parameter.
std::map<std::string, ParameterCounts> own_counts(TrainerState& trainer) {
  std::map<std::string, bool> trained;
  for (const Param& param : trainer.model->params()) trained[model_state_name(param.name)] = is_trained(param.group);
  std::map<std::string, ParameterCounts> all;
  int last = -1;
  at::Tensor gradients;
  for_each_written_weight(trainer, [&](int block, const StatePart& weights) {
    if (std::exchange(last, block) != block) gradients = trainer.kept_gradients.take(block, trainer.steps_done - 1);
    if (!trained.at(weights.name) || weights.runs.empty()) return;
    ParameterCounts& own = all[weights.name];
    count_values(weights, 1.0, own.weights);
    if (!gradients.defined()) return;
    count_values({weights.name, weights.shape, weights.runs, gradients}, trainer.divisor, own.gradients);
  });
  trainer.kept_gradients.clear();
  return all;
}

/// Adds up the counts of all ranks.
void add_up(std::vector<FloatCounts*>& counts, const Group& world, at::Device device) {
  const auto rows = static_cast<int64_t>(counts.size());
  at::Tensor words = at::empty({rows, FloatCounts::num_words()}, at::TensorOptions(at::kLong));
  at::Tensor bounds = at::empty({rows, 2}, at::TensorOptions(at::kDouble));
  const auto row_of = [](const at::Tensor& table, auto* data, int64_t row) { return data + row * table.size(1); };
  for (int64_t row = 0; row < rows; ++row) {
    std::copy(counts[row]->words().begin(), counts[row]->words().end(), row_of(words, words.mutable_data_ptr<int64_t>(), row));
    std::copy_n(std::begin(counts[row]->bounds()), 2, row_of(bounds, bounds.mutable_data_ptr<double>(), row));
  }
  words = words.to(device);
  bounds = bounds.to(device);
  world.all_reduce(words, ReduceOp::sum, "histograms").wait();
  world.all_reduce(bounds, ReduceOp::max, "bounds of histograms").wait();
  words = words.cpu();
  bounds = bounds.cpu();
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(row_of(words, words.const_data_ptr<int64_t>(), row), words.size(1), counts[row]->words().begin());
    std::copy_n(row_of(bounds, bounds.const_data_ptr<double>(), row), 2, std::begin(counts[row]->bounds()));
  }
}

}  // namespace

void parameter_histograms(Trainer& trainer, const VisitHistogram& visit) {
  trainer.start();
  TrainerState& state = trainer.state();
  state.attempt("counting values of parameters", [&] {
    std::map<std::string, ParameterCounts> own = own_counts(state);
    std::vector<const Param*> params;
    for (const Param& param : state.model->params()) {
      if (is_trained(param.group)) params.push_back(&param);
    }
    for (size_t first = 0; first < params.size(); first += kCountedAtOnce) {
      const size_t last = std::min(first + kCountedAtOnce, params.size());
      std::vector<FloatCounts*> rows;
      for (size_t i = first; i < last; ++i) {
        ParameterCounts& counts = own[model_state_name(params[i]->name)];
        rows.insert(rows.end(), {&counts.weights, &counts.gradients});
      }
      add_up(rows, trainer.world_group(), state.options.communication.device);
      for (size_t i = first; i < last; ++i) {
        const auto counted = own.extract(model_state_name(params[i]->name));
        if (auto values = counted.mapped().weights.histogram()) visit("weights/" + params[i]->name, std::move(*values));
        if (auto values = counted.mapped().gradients.histogram()) visit("gradients/" + params[i]->name, std::move(*values));
      }
    }
  });
}

}  // namespace weft
