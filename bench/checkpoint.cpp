// Times checkpoints: a save's stall and time to durability, in the foreground and in the background of steps, and a load. The
// state is a GPT's with AdamW, replicated or fully sharded over the ranks. Rank 0 prints a line of JSON.
//
//   weft run -n 2 -- build/bench/checkpoint FOLDER [--layers 6] [--width 384] [--sharded] [--rounds 3]
//
// A round is one of each; the first, which allocates memory for the copy, is not counted. bench/checkpoints compares the times
// with PyTorch's.
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/stopwatch.h"
#include "weft/comm/mesh.h"
#include "weft/models/gpt.h"
#include "weft/train/trainer/trainer.h"

namespace {

struct Settings {
  std::string folder;
  int64_t layers = 6, width = 384;
  bool sharded = false;
  int rounds = 3;
};

constexpr int64_t kTokens = 64, kHeadWidth = 64, kVocabulary = 256;

/// Seconds of one foreground save, one background save and one load, as this rank measured them.
struct Round {
  double save_s = 0.0, stall_s = 0.0, beside_s = 0.0, load_s = 0.0;
  int64_t bytes = 0;
};

bool all(const weft::Group& group, bool own) {
  at::Tensor not_yet = at::full({1}, own ? 0.0 : 1.0);
  group.all_reduce(not_yet, weft::ReduceOp::sum, "whether all are done").wait();
  return not_yet.item<float>() == 0.0F;
}

Round measure(weft::Trainer& trainer, const weft::Batch& batch, const std::string& path) {
  const weft::Group& group = trainer.world_group();
  Round round;
  const auto timed = [&group](const auto& call) {
    group.barrier("ready").wait();
    const weft::Stopwatch watch;
    call();
    return watch.seconds();
  };
  round.save_s = timed([&] { round.bytes = trainer.save(path + "/save").bytes; });
  round.stall_s = timed([&] { trainer.save_in_background(path + "/beside"); });
  while (!all(group, trainer.is_save_done())) trainer.step(batch);
  round.beside_s = trainer.finish_save().seconds;
  round.load_s = timed([&] { trainer.load(path + "/save"); });
  return round;
}

void run(const Settings& settings) {
  const weft::World world = weft::World::from_environment();
  const weft::Mesh mesh(world, {{settings.sharded ? "shard" : "dp", world.size()}});
  weft::TrainerOptions options{.global_batch = world.size(), .micro_batch = 1};
  if (settings.sharded) options.layout.shard_level = weft::ShardLevel::parameters;
  weft::Trainer trainer(mesh,
                        weft::gpt({.layers = settings.layers,
                                   .heads = settings.width / kHeadWidth,
                                   .width = settings.width,
                                   .context = kTokens,
                                   .vocabulary = kVocabulary}),
                        weft::AdamW{.lr = 1e-4}, options);
  const at::Tensor ids = at::randint(kVocabulary, {1, kTokens});
  const weft::Batch batch{.inputs = {ids}, .target = ids};
  trainer.step(batch);  // creates the optimizer's state

  nlohmann::ordered_json rounds = nlohmann::ordered_json::array();
  for (int i = 0; i <= settings.rounds; ++i) {
    const std::string path = fmt::format("{}/round-{}", settings.folder, i);
    const Round round = measure(trainer, batch, path);
    trainer.world_group().barrier("loaded").wait();
    if (world.rank() == 0) std::filesystem::remove_all(path);
    if (i == 0) continue;
    rounds.push_back({{"bytes", round.bytes},
                      {"save_s", round.save_s},
                      {"stall_s", round.stall_s},
                      {"beside_s", round.beside_s},
                      {"load_s", round.load_s}});
  }
  if (world.rank() == 0) fmt::print("{}\n", rounds.dump());
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Times saves and loads of a GPT's state");
  app.add_option("folder", settings.folder, "where checkpoints are written, then removed")->required();
  app.add_option("--layers", settings.layers);
  app.add_option("--width", settings.width, "model width, a multiple of 64")->check(CLI::PositiveNumber);
  app.add_flag("--sharded", settings.sharded, "fully sharded instead of replicated");
  app.add_option("--rounds", settings.rounds)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    at::set_num_threads(1);
    run(settings);
  } catch (const weft::Error& error) {
    fmt::print(stderr, "checkpoint: {}\n", error.what());
    return 1;
  }
}
