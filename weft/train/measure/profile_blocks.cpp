#include "weft/train/measure/profile_blocks.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "weft/base/median.h"
#include "weft/nn/kernels/kernel_table.h"
#include "weft/plan/make_plan.h"
#include "weft/program/build/make_schedule.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/train/measure/link_times.h"
#include "weft/train/measure/memory_of_rank.h"
#include "weft/train/run/options_of_recipe.h"

namespace weft {

namespace {

/// Bytes read and written per second, by all ranks at once.
double measure_memory(const Group& group, at::Device device) {
  constexpr int64_t kBytes = 64 << 20;
  const at::Tensor from = at::zeros({kBytes}, at::TensorOptions(at::kByte).device(device)), to = at::empty_like(from);
  return 2.0 * kBytes / time_of(group, [&] {
           to.copy_(from);
           if (!device.is_cpu()) to[0].item<uint8_t>();
         });
}

/// Uses its own generator: LibTorch's belongs to the process.
Batch random_batch(const Recipe& recipe, int64_t samples) {
  Batch batch;
  const ModelRecipe& model = recipe.model;
  const at::Generator generator = at::detail::createCPUGenerator();
  const int64_t tokens = tokens_per_sample(model);
  if (reads_arrays(model)) {
    const auto like = [&](const at::Tensor& x) {
      return x.is_floating_point() ? at::randn(x.sizes(), generator) : at::zeros(x.sizes(), at::kLong);
    };
    const MetaBatch meta = meta_batch(recipe, samples);
    for (const at::Tensor& input : meta.inputs) batch.inputs.push_back(like(input));
    batch.target = like(meta.target);
  } else if (tokens > 0) {
    batch.inputs = {at::randint(model.vocabulary, {samples, tokens}, generator, at::kLong)};
    batch.target = at::randint(model.vocabulary, {samples, tokens}, generator, at::kLong);
  } else {
    const std::vector<int64_t> shape = sample_shape(model);
    std::vector<int64_t> sizes = {samples};
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    batch.inputs = {at::randn(sizes, generator)};
    batch.target = at::randint(model.classes, {samples}, generator, at::kLong);
  }
  return batch;
}

/// One rank, one stage: forward, then backward, whole or in two parts.
Schedule one_rank(int micro_batches, bool split) {
  Schedule schedule = make_schedule("naive", {.ranks = 1, .micro_batches = micro_batches});
  if (!split) return schedule;
  std::vector<Task> tasks;
  for (const Task& task : schedule.tasks[0]) {
    if (task.kind == TaskKind::forward) {
      tasks.push_back(task);
      continue;
    }
    tasks.push_back({TaskKind::backward_input, task.stage, task.micro});
    tasks.push_back({TaskKind::backward_weight, task.stage, task.micro});
  }
  schedule.tasks[0] = tasks;
  return schedule;
}

/// Sums the durations of a step's instructions by kind.
class Durations {
 public:
  void add(const Program& program, int rank, const std::vector<TimedInstruction>& times) {
    for (const TimedInstruction& time : times) {
      if (time.rank != rank) continue;
      const Instruction& x = program.of(rank)[time.index];
      const double seconds = time.end_s - time.start_s;
      seconds_[{x.op, takes_one_block(x.op) ? x.first : -1}].push_back(seconds);
      if (x.op != Op::update) continue;
      update_s_ += seconds;
      for (int b = x.first; b < x.last; ++b) updated_ += static_cast<double>(program.block_numel[b]);
    }
  }
  double of(Op op, int block = -1) const {
    const auto found = seconds_.find({op, block});
    return found == seconds_.end() ? 0.0 : median(found->second);
  }
  double update_s_per_element() const { return updated_ > 0.0 ? update_s_ / updated_ : 0.0; }

 private:
  std::map<std::pair<Op, int>, std::vector<double>> seconds_;
  double update_s_ = 0.0, updated_ = 0.0;
};

class Profiler {
 public:
  Profiler(const Recipe& recipe, const World& world, const ProfileOptions& options)
      : recipe_(recipe),
        options_(options),
        world_(world),
        mesh_(world, {{"dp", world.size()}}),
        device_(device_of(recipe, world)),
        plan_(plan_without_program(recipe, world.size())),
        micro_batch_(plan_.layout.micro_batch) {}

  Hardware run() {
    const std::unique_ptr<Trainer> whole = make_trainer(false), split = make_trainer(true);
    train(*whole, false);
    train(*split, false);
    for (int round = 0; round < options_.rounds; ++round) {
      train(*whole, true);
      train(*split, true);
    }
    Hardware hardware = describe(whole->world_group());
    check_hardware(hardware);
    return hardware;
  }

 private:
  std::unique_ptr<Trainer> make_trainer(bool split) const {
    ResolvedLayout layout = plan_.layout;
    layout.global_batch = micro_batch_ * options_.micro_batches * world_.size();
    LayoutOptions kept = layout.options;
    layout.options = {.pipeline = {.first_block = {0}, .given = one_rank(options_.micro_batches, split)},
                      .recompute_parts = kept.recompute_parts,
                      .loss_chunk = kept.loss_chunk,
                      .precision = kept.precision,
                      .reduce_in_fp32 = kept.reduce_in_fp32};
    TrainerOptions options = trainer_options(recipe_, layout, device_);
    options.reproducible_slots = 0;
    options.noise_scale = false;
    return std::make_unique<Trainer>(mesh_, build_model(recipe_.model), optimizer_of(recipe_.optimizer), options);
  }

  void train(Trainer& trainer, bool traced) {
    trainer.trace(traced);
    trainer.step([&] { return random_batch(recipe_, micro_batch_); });
    if (traced) durations_.add(trainer.program(), world_.rank(), trainer.step_times());
  }

  Hardware describe(const Group& group) const {
    Hardware hardware{.name = "measured by weft profile",
                      .kind = std::string(kTargetDevices.of(target_of(device_))),
                      .overlap = !device_.is_cpu()};
    add_work(hardware, group);
    if (options_.measures_machine) add_machine(hardware, group);
    return hardware;
  }

  /// Adds the measured instruction times.
  void add_work(Hardware& hardware, const Group& group) const {
    const auto blocks = static_cast<int>(plan_.cost.blocks.size());
    std::vector<double> mine = {durations_.of(Op::loss), durations_.update_s_per_element()};
    for (int b = 0; b < blocks; ++b) {
      for (const Op op : {Op::forward, Op::backward, Op::backward_input, Op::backward_weight})
        mine.push_back(durations_.of(op, b));
    }
    const std::vector<double> all = mean_over_ranks(std::move(mine), group, device_);
    hardware.micro_batch = micro_batch_;
    hardware.loss_s = all[0];
    hardware.update_s_per_element = all[1];
    double flops = 0.0, seconds = 0.0;
    for (int b = 0; b < blocks; ++b) {
      const double* t = all.data() + 2 + static_cast<std::ptrdiff_t>(4) * b;
      const BlockCost& cost = plan_.cost.blocks[b];
      BlockTime time{.name = cost.name, .forward_s = t[0], .backward_s = t[1]};
      if (cost.splits) time.input_s = t[2];
      if (cost.splits) time.weight_s = t[3];
      hardware.blocks.push_back(time);
      flops += cost.forward_flops + cost.backward_flops;
      seconds += t[0] + t[1];
    }
    hardware.flops = hardware.narrow_flops = four_digits(std::max(flops / seconds, 1.0));
  }

  /// Adds memory, and the links between these ranks; other links are not measured.
  void add_machine(Hardware& hardware, const Group& group) const {
    hardware.memory_bytes = memory_of_rank(world_, device_);
    hardware.memory_bytes_per_s = mean_over_ranks({measure_memory(group, device_)}, group, device_)[0];
    measure_links(hardware, world_, trainer_options(recipe_, plan_.layout, device_).communication);
  }

  const Recipe& recipe_;
  ProfileOptions options_;
  World world_;
  Mesh mesh_;
  at::Device device_;
  Plan plan_;
  int64_t micro_batch_;
  Durations durations_;
};

}  // namespace

Hardware profile(const Recipe& recipe, const World& world, const ProfileOptions& options) {
  at::set_num_threads(threads_of(recipe, world));
  return Profiler(recipe, world, options).run();
}

}  // namespace weft
