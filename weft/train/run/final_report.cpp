#include "weft/train/run/final_report.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include "weft/base/accounting.h"
#include "weft/base/error.h"
#include "weft/checkpoint/digest.h"
#include "weft/checkpoint/model_options.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/comm/world_hosts.h"
#include "weft/engine/device_memory.h"
#include "weft/train/run/evaluation_sets.h"
#include "weft/train/run/options_of_recipe.h"
#include "weft/train/trainer/finite_state.h"

namespace weft {

namespace {

/// Gathers one number per rank, in rank order.
std::vector<double> gather(const Group& group, at::Device device, double value, std::string_view what) {
  at::Tensor values = at::zeros({group.size()}, at::TensorOptions(at::kDouble).device(device));
  values[group.rank()].fill_(value);
  group.all_reduce(values, ReduceOp::sum, what).wait();
  values = values.cpu();
  return {values.data_ptr<double>(), values.data_ptr<double>() + group.size()};
}

}  // namespace

void fill_run_identity(const Recipe& recipe, const ResolvedLayout& layout, const RunLengths& lengths, Trainer& trainer,
                       FinalReport& report) {
  report.model = recipe.model.name;
  report.parameters = trainer.model().num_parameters();
  report.world = layout.world;
  for (const AxisSize& axis : mesh_axes(layout)) report.layout.emplace_back(axis.name, axis.size);
  report.layout.emplace_back("micro_batch", layout.micro_batch);
  report.layout.emplace_back("micro_batches_per_rank", layout.micro_batches);
  report.backend = trainer.world_group().backend();
  report.threads_per_rank = at::get_num_threads();
  report.steps = lengths.steps;
  const LearningRate rate = learning_rate_of(recipe, lengths);
  report.learning_rate = rate.peak;
  report.learning_rate_rule = learning_rate_rule(recipe);
  report.steps_done = trainer.steps_done();
  const std::vector<RatePhase> phases = rate_phases_of(recipe);
  for (int64_t step = 0; step < report.steps_done && !report.learning_rate_rule.empty(); ++step) {
    report.largest_rate = std::max(report.largest_rate, rate_at(rate, phases, step));
  }
  report.target = recipe.run.target;
  report.skipped_steps = trainer.loss_scale().skipped_steps;
}

void fill_step_figures(const Meter& meter, double tokens, const LossTrend& trend, FinalReport& report) {
  report.samples_per_s = meter.samples_per_s();
  report.tokens_per_s = report.samples_per_s * tokens;
  report.step_ms_p50 = meter.percentile_ms(0.5);
  report.step_ms_p95 = meter.percentile_ms(0.95);
  report.late_loss = trend.late();
  report.least_loss = trend.least();
}

void fill_owner(const World& world, FinalReport& report) {
  report.job = cluster_job();
  report.user = user_name();
  for (const std::string& host : hosts_of(world)) {
    if (std::find(report.hosts.begin(), report.hosts.end(), host) == report.hosts.end()) report.hosts.push_back(host);
  }
}

double communication_seconds(const Trainer& trainer) {
  double seconds = 0.0;
  for (const Group& used : trainer.groups()) seconds += used.traffic().seconds;
  return seconds;
}

void gather_figures(Trainer& trainer, at::Device device, const RankFigures& own, FinalReport& report) {
  const Group& world = trainer.world_group();
  int64_t own_bytes = 0;
  for (const Group& used : trainer.groups()) own_bytes += used.traffic().bytes;
  const double communicated_s = communication_seconds(trainer);
  const auto largest = [&](double share, std::string_view what) {
    const std::vector<double> shares = gather(world, device, share, what);
    return *std::max_element(shares.begin(), shares.end());
  };
  report.data_wait_share = largest(own.waited_s / report.seconds, "waits for data");
  report.communication_share = largest(communicated_s / report.seconds, "communication share");
  report.step_communication_share = largest(own.step_communication_share, "communication share of steps");
  for (const double bytes : gather(world, device, static_cast<double>(own_bytes), "traffic")) {
    report.traffic_bytes.push_back(static_cast<int64_t>(bytes));
  }
  report.peak_rss_mb = gather(world, device, peak_rss_mb(), "peak memory");
  if (!device.is_cpu()) {
    const double bytes = static_cast<double>(device_memory(device).value_or(DeviceMemory()).peak_reserved);
    report.peak_device_mb = gather(world, device, bytes / (1 << 20), "peak memory of devices");
  }
  constexpr double kHour = 3600.0;
  report.core_hours = static_cast<double>(report.world * report.threads_per_rank) * process_age_s() / kHour;
}

std::vector<std::string> united(Trainer& trainer, at::Device device, const std::vector<std::string>& texts) {
  const Group& world = trainer.world_group();
  std::string own;
  for (const std::string& text : texts) own += text + '\0';
  const std::vector<double> sizes = gather(world, device, static_cast<double>(own.size()), "lengths of names");
  const auto edge = [&](int rank) { return static_cast<int64_t>(std::accumulate(sizes.begin(), sizes.begin() + rank, 0.0)); };
  const int64_t total = edge(world.size()), first = edge(world.rank());
  if (total == 0) return {};
  at::Tensor bytes = at::zeros({total}, at::kFloat);  // the ranks' bytes one after another, as numbers that a sum preserves
  std::copy_n(reinterpret_cast<const uint8_t*>(own.data()), own.size(), bytes.mutable_data_ptr<float>() + first);
  bytes = bytes.to(device);
  world.all_reduce(bytes, ReduceOp::sum, "names").wait();
  bytes = bytes.cpu();
  const auto* data = bytes.const_data_ptr<float>();
  std::string joined;
  std::transform(data, data + total, std::back_inserter(joined),
                 [](float byte) { return static_cast<char>(static_cast<uint8_t>(byte)); });
  std::set<std::string> all;
  std::istringstream stream(joined);
  for (std::string text; std::getline(stream, text, '\0');) all.insert(text);
  return {all.begin(), all.end()};
}

namespace {

/// Digest of the weights, or of the average in their place; result on rank 0.
std::string digest_and_save(Trainer& trainer, const std::string& path) {
  const bool leads = trainer.world_group().rank() == 0;
  WeightsDigest digest;
  FiniteState looked(trainer.model(), trainer.steps_done());
  std::vector<NamedTensor> weights;
  trainer.for_each_weight([&](const std::string& name, const at::Tensor& value) {
    looked.look_at(name, value);  // whole on all ranks, so that all throw the same
    if (!leads) return;
    digest.add(name, value);
    if (!path.empty()) weights.push_back({name, value.clone()});
  });
  if (!looked.error().empty()) throw NumericError("the last weights: " + looked.error());
  if (!leads) return {};
  if (!path.empty()) save_safetensors(path, weights, weights_metadata(trainer.model().model().options));
  return digest.hex();
}

}  // namespace

void fill_final_weights(Trainer& trainer, const Recipe& recipe, const std::string& path, FinalReport& report) {
  const bool saves_average = evaluates_average(trainer, recipe.run.evaluate);
  report.weights_sha256 = digest_and_save(trainer, saves_average ? "" : path);
  if (!trainer.keeps_average()) return;
  trainer.with_average([&] { report.average_sha256 = digest_and_save(trainer, saves_average ? path : ""); });
}

}  // namespace weft
