// Trainings on the checked device, over NCCL's rules: nothing is said of any row, and the bits are those of the CPU where it
// runs the same operators. On another device (on_device.h) they are the CPU's within rounding.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <variant>
#include <vector>

#include "tests/data/temp_folder.h"
#include "tests/device/on_device.h"

namespace weft::device_parity_test {
namespace {

struct Row {
  std::string name;
  int ranks = 1;
  const char* job = "gpt";
  Strategy strategy = {};
  OptimizerOptions optimizer = AdamW{};
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

using Change = std::function<void(Strategy&)>;

Row row(const std::string& name, int ranks, const char* job, Change change) {
  Row made{name, ranks, job, {.name = name, .micro_batch = 1, .slots = 4, .clip = 0.05}};
  change(made.strategy);
  return made;
}

std::vector<Row> rows() {
  std::vector<Row> all;
  const auto nothing = [](Strategy&) {};
  for (const char* job : {"gpt", "cnn", "mlp", "tied_gpt", "llama"}) {
    for (const int ranks : {1, 2, 4}) all.push_back(row(std::string("dp_") + job + std::to_string(ranks), ranks, job, nothing));
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
    all.push_back(row("cp_" + std::string(kContextMethods.of(method)), 2, "split_gpt", [&](Strategy& s) {
      s.micro_batch = 4;
      s.cp = 2;
      s.layout.attention_over = method;
    }));
  }
  all.push_back(row("recompute", 2, "gpt", [](Strategy& s) { s.layout.recompute_every = 1; }));
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
  all.push_back(row("average", 2, "cnn", [](Strategy& s) { s.average = {.decay = 0.5}; }));
  all.push_back(row("noise_scale", 2, "gpt", [](Strategy& s) {
    s.slots = 0;
    s.noise_scale = true;
  }));
  all.push_back(row("packed", 2, "packed_gpt", nothing));
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
  constexpr int kSteps = 2;
  Row row = GetParam();
  if (!is_checked_device() && std::holds_alternative<AdamW>(row.optimizer)) row.optimizer = Sgd{.momentum = 0.9};
  said_of_device();
  Strategy on_cpu = row.strategy;
  on_cpu.operators = is_checked_device();
  const Job& job = weft::job(row.job);
  const Trained there = train_ranks(job, on_device(row.strategy), row.ranks, row.optimizer, kSteps);
  EXPECT_EQ(said_of_device(), "");
  const Trained here = train_ranks(job, on_cpu, row.ranks, row.optimizer, kSteps);
  if (is_checked_device()) {
    expect_equal(there, here, "the CPU");
  } else {
    expect_rounded(there, here, row);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, DeviceParity, testing::ValuesIn(rows()), [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

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
