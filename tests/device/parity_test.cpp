// Trainings on the checked device, over NCCL's rules: nothing is said of any row, and the bits are those of the CPU where it
// runs the same operators. On another device (on_device.h) they are the CPU's within rounding.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/data/temp_folder.h"
#include "tests/device/on_device.h"
#include "tests/optim/custom_lion.h"
#include "weft/checked_device.h"

namespace weft::device_parity_test {
namespace {

struct Row {
  std::string name;
  int ranks = 1;
  const char* job = "gpt";
  Strategy strategy = {};
  OptimizerOptions optimizer = AdamW{};
  std::string why_not_captured = {};
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

using Change = std::function<void(Strategy&)>;

Row row(const std::string& name, int ranks, const char* job, Change change) {
  const int64_t samples = ranks > 2 ? 1 : few_micro_batches(weft::job(job));
  Row made{name, ranks, job, {.name = name, .micro_batch = samples, .slots = 4, .clip = 0.05}};
  change(made.strategy);
  return made;
}

std::vector<Row> rows() {
  std::vector<Row> all;
  const auto cannot = [&all](const std::string& why) { all.back().why_not_captured = why; };
  const auto nothing = [](Strategy&) {};
  for (const char* job : {"gpt", "cnn", "mlp", "tied_gpt", "llama"}) {
    for (const int ranks : {1, 2, 4}) {
      all.push_back(row(std::string("dp_") + job + std::to_string(ranks), ranks, job, nothing));
    }
  }
  for (const auto level : {ShardLevel::optimizer, ShardLevel::gradients, ShardLevel::parameters}) {
    for (const int ranks : {2, 4}) {
      for (const auto spread : {Spread::shard, Spread::hybrid}) {
        if (spread == Spread::hybrid && ranks < 4) continue;
        all.push_back(
            row("zero_" + std::string(weft::name(level)) + (spread == Spread::hybrid ? "_hybrid" : "") + std::to_string(ranks),
                ranks, "gpt", [&](Strategy& s) {
                  s.spread = spread;
                  s.layout.shard_level = level;
                }));
      }
    }
  }
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"}) {
    for (const int pp : {2, 4}) {
      all.push_back(row("pp_" + std::string(schedule) + std::to_string(pp), pp, "deep_gpt", [&](Strategy& s) {
        s.pp = pp;
        s.layout.pipeline.schedule = schedule;
      }));
    }
  }
  for (const int tp : {2, 4}) {
    all.push_back(row("tp" + std::to_string(tp), tp, "split_gpt", [&](Strategy& s) {
      s.micro_batch = 4;
      s.tp = tp;
    }));
    all.push_back(row("tp_sequence" + std::to_string(tp), tp, "split_llama", [&](Strategy& s) {
      s.micro_batch = 4;
      s.tp = tp;
      s.layout.sequence_parallel = true;
    }));
  }
  for (const auto method : {ContextMethod::ring, ContextMethod::all_to_all}) {
    for (const bool grouped : {false, true}) {
      const std::string name = fmt::format("cp_{}{}", kContextMethods.of(method), grouped ? "_grouped_bf16" : "");
      all.push_back(row(name, 2, grouped ? "split_llama" : "split_gpt", [&](Strategy& s) {
        s.micro_batch = 4;
        s.cp = 2;
        s.layout.attention_over = method;
        if (grouped) s.layout.precision = Precision::bf16;
      }));
    }
  }
  all.push_back(row("recompute", 2, "gpt", [](Strategy& s) { s.layout.recompute_every = 1; }));
  for (const char* job : {"gpt", "tied_gpt", "llama"}) {
    all.push_back(row(fmt::format("loss_chunk_{}", job), 2, job, [](Strategy& s) {
      s.spread = Spread::shard;
      s.layout.shard_level = ShardLevel::parameters;
      s.layout.loss_chunk = 3;
    }));
  }
  all.push_back(row("loss_chunk_bf16", 2, "deep_llama", [](Strategy& s) {
    s.pp = 2;
    s.layout.pipeline.schedule = "zb-h1";
    s.layout.precision = Precision::bf16;
    s.layout.loss_chunk = 3;
  }));
  all.push_back(row("bf16", 2, "gpt", [](Strategy& s) { s.layout.precision = Precision::bf16; }));
  all.push_back(row("fp16", 2, "gpt", [](Strategy& s) {
    s.slots = 0;
    s.layout.precision = Precision::fp16;
  }));
  all.push_back(row("offload", 2, "gpt", [](Strategy& s) {
    s.spread = Spread::shard;
    s.layout.shard_level = ShardLevel::parameters;
    s.layout.recompute_every = 1;
    s.layout.recompute_parts = false;
    s.layout.offload_optimizer = s.layout.offload_parameters = s.layout.offload_activations = Offload::host;
  }));
  cannot("it offloads to the host");
  all.push_back(row("pp_shard", 4, "deep_gpt", [](Strategy& s) {
    s.pp = 2;
    s.spread = Spread::shard;
    s.layout.shard_level = ShardLevel::gradients;
  }));
  all.push_back(row("pp_tp", 4, "split_gpt", [](Strategy& s) {
    s.micro_batch = 4;
    s.pp = 2;
    s.tp = 2;
  }));
  const std::vector<std::pair<const char*, OptimizerOptions>> optimizers = {{"sgd", Sgd{.momentum = 0.9, .nesterov = true}},
                                                                            {"lars", Lars{}},
                                                                            {"lamb", Lamb{}},
                                                                            {"lion", Lion{}},
                                                                            {"rmsprop", RmsProp{}},
                                                                            {"adagrad", Adagrad{}},
                                                                            {"adafactor", Adafactor{}},
                                                                            {"muon", Muon{}}};
  for (const auto& [name, optimizer] : optimizers) {
    all.push_back(row(name, 2, "gpt", [](Strategy& s) {
      s.spread = Spread::shard;
      s.layout.shard_level = ShardLevel::optimizer;
    }));
    all.back().optimizer = optimizer;
  }
  for (const bool has_gate : {false, true}) {
    all.push_back(row(has_gate ? "custom_gated" : "custom", 2, "gpt", nothing));
    all.back().optimizer = has_gate ? test::gated_lion() : test::custom_lion(0.1);
    if (!has_gate) cannot("ElementWiseUpdate::takes_gate()");
  }
  all.push_back(row("left_out", 2, "deep_mixed", nothing));
  cannot("blocks may leave out parameters");
  all.push_back(row("average", 2, "cnn", [](Strategy& s) { s.average = {.decay = 0.5}; }));
  all.push_back(row("noise_scale", 2, "gpt", [](Strategy& s) {
    s.slots = 0;
    s.noise_scale = true;
  }));
  all.push_back(row("packed", 2, "packed_gpt", nothing));
  cannot("where documents begin");
  all.push_back(row("packed_bf16", 2, "packed_llama", [](Strategy& s) { s.layout.precision = Precision::bf16; }));
  cannot("where documents begin");
  return all;
}

class DeviceParity : public testing::TestWithParam<Row> {};

/// Where sums are rounded otherwise: the tolerance of losses and norms, and of weights unless the optimizer divides small
/// gradients by their size, which amplifies rounding.
void expect_rounded(const Trained& actual, const Trained& expected, const Row& row) {
  const bool is_narrow = row.strategy.layout.precision != Precision::fp32;
  const bool is_convolution = row.job == std::string("cnn");  // TF32 on GPUs
  expect_close(actual, expected, is_narrow ? 3e-2 : is_convolution ? 1e-2 : 1e-4, std::holds_alternative<Sgd>(row.optimizer));
}

TEST_P(DeviceParity, TrainsAsTheCpuDoes) {
  Row row = GetParam();
  // Two steps as they come, two as a graph that is captured and replayed, at rates of their own.
  row.strategy.graph = row.why_not_captured.empty() && has_graphs(row.ranks);
  row.strategy.decay = Decay::cosine;
  const int kSteps = row.strategy.graph ? 4 : 2;
  if (!is_checked_device() && std::holds_alternative<AdamW>(row.optimizer)) row.optimizer = Sgd{.momentum = 0.9};
  said_of_device();
  Strategy on_cpu = row.strategy;
  on_cpu.float32_rates = std::exchange(on_cpu.graph, false);
  on_cpu.operators = is_checked_device();
  const Job& job = weft::job(row.job);
  Strategy pinned = on_device(row.strategy);
  pinned.pinned = is_checked_device();
  const Trained there = train_ranks(job, pinned, row.ranks, row.optimizer, kSteps);
  EXPECT_EQ(said_of_device(), "");
  const Trained here = train_ranks(job, on_cpu, row.ranks, row.optimizer, kSteps);
  if (is_checked_device()) {
    expect_equal(there, here, "the CPU");
  } else {
    expect_rounded(there, here, row);
  }
}

/// Rows of each layout once: of four ranks only where there is none of two.
std::vector<Row> layouts() {
  const std::vector<Row> all = rows();
  std::vector<Row> kept;
  for (const Row& row : all) {
    const bool has_smaller = row.ranks == 4 && std::any_of(all.begin(), all.end(), [&](const Row& other) {
                               return other.name == row.name.substr(0, row.name.size() - 1) + "2";
                             });
    if (!has_smaller) kept.push_back(row);
  }
  return kept;
}

class DeviceSteps : public testing::TestWithParam<Row> {};

/// What a step gives the device is what the step before gave it: the same operators on the same memory, waits and calls; and
/// streams wait for each call once, as the program says, and for each micro-batch on a stage that loads it: the stream that
/// computes for its copy, the one that copies for memory of an earlier one.
TEST_P(DeviceSteps, AreAlikeOrSayWhyTheyCannotBeCaptured) {
  if (!is_checked_device()) return;
  Row row = GetParam();
  said_of_device();
  if (!row.why_not_captured.empty()) {
    row.strategy.graph = true;
    try {
      train_ranks(job(row.job), on_device(row.strategy), row.ranks, row.optimizer, 3);
      ADD_FAILURE() << "captured";
    } catch (const std::exception& error) {
      EXPECT_NE(std::string(error.what()).find(row.why_not_captured), std::string::npos) << error.what();
    }
    said_of_device();
    return;
  }
  row.strategy.decay = Decay::cosine;
  row.strategy.float32_rates = true;
  const int data_ranks = row.ranks / (row.strategy.pp * row.strategy.tp * row.strategy.cp);
  const int64_t samples = micro_batch_of(job(row.job), row.strategy, row.ranks);
  const auto micro_batches = static_cast<uint64_t>(job(row.job).global_batch / data_ranks / samples);
  std::map<int, std::vector<std::string>> before;
  std::mutex mutex;
  row.strategy.around = [&](int rank, int step, const std::function<void()>& run) {
    if (step == 0) return run();
    checked_device::Recording recording(rank);
    const uint64_t waits_before = checked_device::orderings(checked_device::Ordering::wait, rank);
    run();
    const uint64_t waits = checked_device::orderings(checked_device::Ordering::wait, rank) - waits_before;
    recording.end();
    const std::lock_guard lock(mutex);
    std::vector<std::string> entries = recording.entries();
    EXPECT_GT(entries.size(), 50U);
    const auto is_call = [](const std::string& entry) { return entry.starts_with("nccl "); };
    const auto calls = static_cast<uint64_t>(std::count_if(entries.begin(), entries.end(), is_call));
    EXPECT_TRUE(waits == calls + 2 * micro_batches || (row.strategy.pp > 1 && waits == calls))
        << "rank " << rank << ": " << waits << " waits for " << calls << " calls and " << micro_batches << " micro-batches";
    if (step == 1) return void(before[rank] = std::move(entries));
    for (size_t i = 0; i < std::max(entries.size(), before[rank].size()); ++i) {
      const std::string was = i < before[rank].size() ? before[rank][i] : "nothing",
                        is = i < entries.size() ? entries[i] : "nothing";
      ASSERT_EQ(is, was) << "rank " << rank << ", " << i;
    }
  };
  train_ranks(job(row.job), on_device(row.strategy), row.ranks, row.optimizer, 3);
  EXPECT_EQ(said_of_device(), "");
}

std::string name_of(const testing::TestParamInfo<Row>& info) {
  std::string name = info.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table, DeviceParity, testing::ValuesIn(rows()), name_of);
INSTANTIATE_TEST_SUITE_P(Table, DeviceSteps, testing::ValuesIn(layouts()), name_of);

/// Saved on one number of devices, also in the background, and loaded on another: pp, all that can be offloaded, dp.
class DeviceResume : public testing::TestWithParam<bool> {};

TEST_P(DeviceResume, HasTheBitsOfOneRun) {
  const auto at_step = [](int until, int ranks, const Change& change) {
    Strategy strategy{.micro_batch = 1, .slots = 4, .clip = 0.05};
    change(strategy);
    return Stretch{on_device(strategy), ranks, until};
  };
  const std::vector<Stretch> stretches = {at_step(2, 2, [](Strategy& s) { s.pp = 2; }),
                                          at_step(4, 4,
                                                  [](Strategy& s) {
                                                    s.spread = Spread::shard;
                                                    s.layout = {.shard_level = ShardLevel::parameters,
                                                                .recompute_every = 1,
                                                                .offload_optimizer = Offload::host,
                                                                .offload_parameters = Offload::host,
                                                                .offload_activations = Offload::host};
                                                  }),
                                          at_step(6, 1, [](Strategy&) {})};
  Strategy alone{.micro_batch = 1, .slots = 4, .clip = 0.05};
  const test::TempFolder folder;
  said_of_device();
  const Trained stopped = train_in_stretches(job("gpt"), stretches, AdamW{}, folder.path().string(), GetParam());
  EXPECT_EQ(said_of_device(), "");
  expect_equal(stopped, train_ranks(job("gpt"), on_device(alone), 1, AdamW{}, 6), "one run");
}

INSTANTIATE_TEST_SUITE_P(InBackground, DeviceResume, testing::Bool());

}  // namespace
}  // namespace weft::device_parity_test
