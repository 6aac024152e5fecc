// Pipeline errors are reported before anything runs, or in bounded time: layouts that do not fit, ranks started with different
// recipes, a rank killed in the middle of a step.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <mutex>

#include "tests/support/run_processes.h"
#include "tests/support/run_ranks.h"
#include "tests/train/jobs.h"
#include "weft/base/error.h"
#include "weft/models/vision.h"
#include "weft/program/schedules/gpipe.h"

namespace weft::pipeline_misuse_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kWorld = 4;

Model eight_blocks(int64_t width = 8) { return mlp({.inputs = 144, .width = width, .layers = 7}); }

/// Changes to a good run: four stages, eight micro-batches.
struct Start {
  std::vector<AxisSize> mesh = {{"pp", kWorld}};
  std::function<Model()> model = [] { return eight_blocks(); };
  OptimizerOptions optimizer = AdamW{};
  TrainerOptions options = {.global_batch = 16, .micro_batch = 2};

  PipelineOptions& pipeline() { return options.layout.pipeline; }
  Trainer trainer(const World& world) const { return {Mesh(world, mesh), model(), optimizer, options}; }
};

struct Refused {
  const char* what;
  std::function<void(Start&)> change;
  const char* says;
};

TEST(PipelineMisuse, LayoutsThatDoNotFitAreRefusedWithTheRule) {
  const std::vector<Refused> cases = {
      {"more stages than ranks",
       [](Start& x) {
         x.pipeline().first_block = {0, 2, 3, 4, 6};
       },
       "cut into 5 stages, but schedule 1f1b has 4"},
      {"fewer stages than ranks",
       [](Start& x) {
         x.pipeline().first_block = {0, 4};
       },
       "cut into 2 stages, but schedule 1f1b has 4"},
      {"stages for one chunk a rank",
       [](Start& x) {
         x.pipeline() = {.schedule = "zb-v", .first_block = {0, 2, 4, 6}};
       },
       "cut into 4 stages, but schedule zb-v has 8"},
      {"an empty stage",
       [](Start& x) {
         x.pipeline().first_block = {0, 4, 4, 6};
       },
       "stage 1 has blocks [4, 4) of 8; every stage needs at least one"},
      {"stages out of order",
       [](Start& x) {
         x.pipeline().first_block = {0, 6, 4, 7};
       },
       "stage 1 has blocks [6, 4) of 8"},
      {"more stages than blocks", [](Start& x) { x.model = [] { return mlp({.inputs = 144, .layers = 1}); }; },
       "every stage needs at least one"},
      {"fewer micro-batches than stages",
       [](Start& x) {
         x.pipeline().schedule = "interleaved";
         x.options.micro_batch = 8;
       },
       "schedule interleaved: 2 micro-batches on 4 ranks: needs at least as many micro-batches as ranks (4 or more)"},
      {"micro-batches that chunks do not divide",
       [](Start& x) {
         x.pipeline().schedule = "interleaved";
         x.options.global_batch = 12;
       },
       "6 micro-batches on 4 ranks: needs a multiple of the ranks (4 or 8)"},
      {"a schedule for other ranks", [](Start& x) { x.pipeline().given = gpipe_schedule({.ranks = 2, .micro_batches = 8}); },
       "schedule gpipe is for 2 pipeline ranks and 8 micro-batches, the layout has 4 and 8"},
      {"a schedule for other micro-batches",
       [](Start& x) { x.pipeline().given = gpipe_schedule({.ranks = 4, .micro_batches = 4}); },
       "schedule gpipe is for 4 pipeline ranks and 4 micro-batches, the layout has 4 and 8"},
      {"a schedule that misses a task",
       [](Start& x) {
         x.pipeline().given = gpipe_schedule({.ranks = 4, .micro_batches = 8});
         x.pipeline().given.tasks[2].pop_back();
       },
       "rank 2: backward of stage 2, micro-batch 7 is missing"},
      {"slots that mix tied weights",
       [](Start& x) {
         x.model = job("deep_tied_gpt").model;
         x.pipeline().schedule = "zb-v";
         x.options.reproducible_slots = 4;
       },
       "use a schedule with one stage per rank"},
  };
  const World world = World::threads(kWorld)[0];
  Start().trainer(world);
  for (const Refused& c : cases) {
    Start start;
    c.change(start);
    try {
      start.trainer(world);
      ADD_FAILURE() << c.what << " passes, but should say: " << c.says;
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << c.what << ": " << error.what();
    }
  }
}

/// Errors of all ranks when rank 2 was started differently.
std::vector<std::string> start_with_one_that_differs(const std::function<void(Start&)>& change, BackendKind backend) {
  std::vector<std::string> errors(kWorld);
  std::mutex mutex;
  test::run_ranks(kWorld,
                  [&](const World& world) {
                    Start start;
                    start.options.communication = {.backend = backend, .timeout = 20s};
                    if (world.rank() == 2) change(start);
                    Trainer trainer = start.trainer(world);
                    try {
                      trainer.start();
                    } catch (const Error& error) {
                      const std::lock_guard lock(mutex);
                      errors[world.rank()] = error.what();
                    }
                  },
                  {.timeout = 30s});
  return errors;
}

TEST(PipelineMisuse, RanksWithDifferentRecipesFailWhenTheyStart) {
  const std::vector<Refused> cases = {
      {"another schedule", [](Start& x) { x.pipeline().schedule = "zb-h1"; }, "; rank 0 has instructions: "},
      {"other stages",
       [](Start& x) {
         x.pipeline().first_block = {0, 1, 2, 3};
       },
       "; rank 0 has instructions: "},
      {"other micro-batches", [](Start& x) { x.options.micro_batch = 4; },
       "; rank 0 has micro-batches: 8 per rank, in 1 slot, rank 2 has micro-batches: 4 per rank, in 1 slot"},
      {"another mesh",
       [](Start& x) {
         x.mesh = {{"dp", kWorld}};
       },
       "; rank 0 has ranks: pp 4 x dp 1 x shard 1 x cp 1 x tp 1, rank 2 has ranks: pp 1 x dp 4 x shard 1 x cp 1 x tp 1"},
      {"another model", [](Start& x) { x.model = [] { return eight_blocks(16); }; }, "; rank 0 has model: 8 blocks"},
      {"another graph of the same shapes",
       [](Start& x) {
         x.model = [made = x.model] {
           Model model = made();
           model.options = {{"graph", "f00d"}};
           return model;
         };
       },
       "rank 2 has model.graph: f00d"},
      {"other sharding",
       [](Start& x) {
         x.mesh = {{"pp", 2}, {"shard", 2}};
         x.options.layout.shard_level = ShardLevel::parameters;
       },
       "rank 2 has sharded: parameters"},
      {"another type", [](Start& x) { x.options.layout.precision = Precision::bf16; }, "rank 2 has precision: bf16"},
      {"reproducible slots", [](Start& x) { x.options.reproducible_slots = 1; },
       "rank 0 has reproducible slots: 0, sums in any order, rank 2 has reproducible slots: 1, sums in tree order"},
      {"tree order", [](Start& x) { x.options.communication.tree_order = true; },
       "rank 2 has reproducible slots: 0, sums in tree order"},
      {"another seed", [](Start& x) { x.options.seed = 7; }, "; rank 0 has seed: 1, rank 2 has seed: 7; start all ranks"},
      {"another learning rate", [](Start& x) { x.options.learning_rate.peak = 0.5; }, "rank 2 has learning rate: peak 0.5"},
      {"another optimizer", [](Start& x) { x.optimizer = Sgd{}; }, "rank 2 has optimizer: SGD"},
      {"other weight decay", [](Start& x) { x.optimizer = AdamW{.weight_decay = 0.5}; }, "weight decay 0.5"},
      {"other clipping", [](Start& x) { x.options.clip = 0.5; }, "; rank 0 has clip: 0, rank 2 has clip: 0.5"},
  };
  for (const Refused& c : cases) {
    for (const BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
      const auto begin = Clock::now();
      const std::vector<std::string> errors = start_with_one_that_differs(c.change, backend);
      EXPECT_LT(Clock::now() - begin, 5s) << c.what;
      for (const std::string& error : errors) {
        EXPECT_NE(error.find("rank 2 would train differently from rank 0"), std::string::npos) << c.what << ": " << error;
        EXPECT_NE(error.find(c.says), std::string::npos) << c.what << ": " << error;
        EXPECT_NE(error.find("start all ranks with the same recipe"), std::string::npos) << error;
      }
    }
  }
}

TEST(PipelineMisuse, RanksStartAfterAStartThatWasRefused) {
  test::run_ranks(kWorld, [](const World& world) {
    for (int refused = 0; refused < 2; ++refused) {
      Start start;
      if (world.rank() == 2) start.options.seed = 7 + refused;
      Trainer trainer = start.trainer(world);
      try {
        trainer.start();
        ADD_FAILURE() << "trains with different seeds";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(fmt::format("rank 2 has seed: {}", 7 + refused)), std::string::npos)
            << error.what();
      }
    }
    Start start;
    EXPECT_GT(start.trainer(world).step(job("deep_modules").batch_of(0)).loss, 0.0);
  });
}

TEST(PipelineMisuse, ARankThatDoesNotStartIsNamedByAllOthers) {
  std::vector<std::string> errors(kWorld);
  test::run_ranks(kWorld, [&](const World& world) {
    Start start;
    start.options.communication.timeout = 300ms;
    Trainer trainer = start.trainer(world);
    if (world.rank() == 2) return;
    try {
      trainer.start();
    } catch (const CommError& error) {
      errors[world.rank()] = error.what();
    }
  });
  for (int rank : {0, 1, 3}) {
    EXPECT_EQ(errors[rank].rfind("rank 2: did not arrive within 0.3 s", 0), 0u) << errors[rank];
    EXPECT_NE(errors[rank].find("0 in starting to train for 2"), std::string::npos) << errors[rank];
  }
}

/// Dies in the forward of one block on one micro-batch.
class Deadly : public Block {
 public:
  Deadly(std::shared_ptr<Block> block, int64_t step, int64_t sample) : block_(std::move(block)), step_(step), sample_(sample) {}
  Tensors forward(const Tensors& inputs, const Context& context) override {
    if (context.step == step_ && context.first_sample == step_ * 16 + sample_) ::kill(::getpid(), SIGKILL);
    return block_->forward(inputs, context);
  }
  std::vector<ParamSpec> parameters() override { return block_->parameters(); }
  bool always_uses_all() const override { return block_->always_uses_all(); }

 private:
  std::shared_ptr<Block> block_;
  int64_t step_, sample_;
};

/// With four processes, one per stage, `victim` is killed in its second step, in the middle of the pipeline's flush.
void expect_death_is_named(BackendKind backend, const std::string& schedule, int victim) {
  const std::string label = schedule + (backend == BackendKind::shm ? " shm" : " gloo");
  const auto results = test::run_processes(kWorld,
                                           [&](const World& world) -> std::string {
                                             Start start;
                                             start.options.communication = {.backend = backend, .timeout = 30s};
                                             start.pipeline().schedule = schedule;
                                             if (world.rank() == victim) {
                                               start.model = [victim] {
                                                 Model model = eight_blocks();
                                                 auto& block = model.blocks[2 * victim + 1].block;
                                                 block = std::make_shared<Deadly>(block, /*step=*/1, /*sample=*/10);
                                                 return model;
                                               };
                                             }
                                             Trainer trainer = start.trainer(world);
                                             for (int64_t step = 0; step < 3; ++step)
                                               trainer.step(job("deep_modules").batch_of(step));
                                             return "trained on as if nothing had happened";
                                           },
                                           {.label = label, .timeout = 60s});
  EXPECT_EQ(results[victim].signal, SIGKILL) << label;
  for (int rank = 0; rank < kWorld; ++rank) {
    const test::ProcessResult& result = results[rank];
    if (rank == victim) continue;
    EXPECT_TRUE(result.ended) << label << ": rank " << rank << " was left behind";
    EXPECT_LT(result.lifetime, 15s) << label;
    EXPECT_NE(result.error.find("rank " + std::to_string(victim)), std::string::npos) << label << ": " << result.error;
    EXPECT_NE(result.error.find("died"), std::string::npos) << label << ": " << result.error;
    const bool names_message = result.error.find("output of hidden.") != std::string::npos;
    EXPECT_TRUE(names_message && result.error.find("micro-batch") != std::string::npos) << label << ": " << result.error;
  }
}

TEST(PipelineMisuse, ARankKilledInTheMiddleOfAFlushIsNamedByAllOthers) {
  expect_death_is_named(BackendKind::shm, "1f1b", 2);
  expect_death_is_named(BackendKind::shm, "gpipe", 0);
  expect_death_is_named(BackendKind::gloo, "1f1b", 1);
}

}  // namespace
}  // namespace weft::pipeline_misuse_test
