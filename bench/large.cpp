// Times schedule, program, verification and simulation of 4 096 ranks: pp 16, tp 8, dp 32, 128 micro-batches, 96 blocks, every
// schedule. JSON: seconds of each, and the process's peak memory.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <string>

#include "weft/program/build/build.h"
#include "weft/program/build/make_schedule.h"
#include "weft/program/pipeline/schedule.h"
#include "weft/program/simulate/simulate.h"
#include "weft/program/verify/verify.h"

namespace {

using weft::ModelCost;

constexpr int kPipeline = 16, kTensor = 8, kReplicas = 32, kMicroBatches = 128, kBlocks = 96;

ModelCost model() {
  ModelCost cost{.name = "large", .blocks = {}, .input_bytes = 1 << 16};
  for (int b = 0; b < kBlocks; ++b) {
    cost.blocks.push_back({.name = fmt::format("h.{}", b),
                           .parameters = 226'492'416,  // a layer of width 12 288 over 8 tensor-parallel ranks
                           .numel = 226'492'416,
                           .forward_flops = 9.3e11,
                           .backward_flops = 18.6e11,
                           .saved_bytes = 300 << 20,
                           .output_bytes = 48 << 20,
                           .splits = true,
                           .input_flops = 9.3e11,
                           .deferred_bytes = 200 << 20});
  }
  return cost;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string measure(const std::string& name, weft::ShardLevel level) {
  auto start = std::chrono::steady_clock::now();
  const weft::Schedule schedule = weft::make_schedule(name, {.ranks = kPipeline, .chunks = 3, .micro_batches = kMicroBatches});
  const double schedule_s = seconds_since(start);
  start = std::chrono::steady_clock::now();
  const weft::StepLayout layout = {.pp = kPipeline,
                                   .schedule = schedule,
                                   .tp = kTensor,
                                   .dp = level == weft::ShardLevel::none ? kReplicas : 1,
                                   .shard = level == weft::ShardLevel::none ? 1 : kReplicas,
                                   .shard_level = level,
                                   .micro_batches = kMicroBatches,
                                   .clip = true};
  const weft::Program program = weft::build_program(model(), layout);
  const double build_s = seconds_since(start);
  start = std::chrono::steady_clock::now();
  weft::verify(program);
  const double verify_s = seconds_since(start);
  start = std::chrono::steady_clock::now();
  const weft::Simulation simulation = weft::simulate(program, weft::nominal_hardware());
  const double simulate_s = seconds_since(start);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return fmt::format(
      R"(  {{"schedule": "{}", "shard_level": "{}", "ranks": {}, "schedule_s": {:.3f}, "build_s": {:.3f}, "verify_s": {:.3f}, "simulate_s": {:.3f}, )"
      R"("step_s": {:.3f}, "bubble": {:.4f}, "peak_rss_mb": {}}})",
      name, weft::name(level), program.world_size(), schedule_s, build_s, verify_s, simulate_s, simulation.step_s,
      simulation.bubble_share(), usage.ru_maxrss / 1024);
}

}  // namespace

int main() {
  std::string rows;
  for (const weft::ShardLevel level : {weft::ShardLevel::none, weft::ShardLevel::parameters}) {
    for (const std::string& name : weft::schedule_names()) {
      if (name == "naive" || name == "csv") continue;
      rows += (rows.empty() ? "" : ",\n") + measure(name, level);
    }
  }
  fmt::print("[\n{}\n]\n", rows);
}
