// Transfers between the stages of a pipeline: messages alone, and two stages vs one rank that runs both.
#include "weft/engine/transfers.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/lists.h"
#include "tests/engine/recorder.h"
#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/comm/mesh.h"
#include "weft/program/schedules/naive.h"
#include "weft/program/schedules/one_f_one_b.h"
#include "weft/program/verify/verify.h"

namespace weft {
namespace {

using Log = std::vector<std::string>;

at::Tensor random(at::IntArrayRef sizes, int seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(static_cast<uint64_t>(seed)), at::kFloat);
}

Group pipeline_of(const World& world, BackendKind backend) {
  const Mesh mesh(world, {{"pp", world.size()}});
  return mesh.group(mesh.axis("pp"), {.backend = backend});
}

class TransfersTest : public ::testing::TestWithParam<BackendKind> {
 protected:
  /// Each rank of two with its transfers.
  static void run(const std::function<void(int rank, Transfers& transfers)>& body) {
    const BackendKind backend = GetParam();
    test::run_ranks(2, [=](const World& world) {
      const Group pipeline = pipeline_of(world, backend);
      Transfers transfers(pipeline, at::kCPU);
      transfers.begin();
      body(world.rank(), transfers);
      pipeline.barrier("end of the test").wait();
    });
  }
};

/// The first has a gradient.
Tensors message(int micro, int64_t rows = 3) {
  return {random({rows, 4}, micro).requires_grad_(true), at::arange(5, at::kLong).add(micro),
          random({2, 1, rows}, 10 + micro).to(at::kBFloat16), random({}, 20 + micro)};
}

TEST_P(TransfersTest, SeveralTensorsOfAnyTypeAndTheirGradientsBack) {
  run([](int rank, Transfers& transfers) {
    const Tensors sent = message(0), back = {random({3, 4}, 30), {}, random({2, 1, 3}, 31).to(at::kBFloat16), {}};
    if (rank == 0) {
      transfers.send_activation(1, 7, sent, "a").wait();
      Tensors gradients;
      transfers.receive_gradient(1, 7, gradients, "b").wait();
      ASSERT_EQ(gradients.size(), 4u);
      EXPECT_FALSE(gradients[1].defined()) << "integers take no gradient";
      for (int i : {0, 2}) EXPECT_TRUE(at::equal(gradients[i], back[i])) << i;
      EXPECT_TRUE(at::equal(gradients[3], at::zeros({}))) << "an undefined gradient arrives as zero";
      return;
    }
    Tensors received;
    transfers.receive_activation(0, 7, received, "a").wait();
    ASSERT_EQ(received.size(), sent.size());
    for (size_t i = 0; i < sent.size(); ++i) {
      EXPECT_EQ(received[i].scalar_type(), sent[i].scalar_type());
      EXPECT_TRUE(at::equal(received[i], sent[i])) << i;
      EXPECT_EQ(received[i].requires_grad(), i == 0) << i;
      EXPECT_TRUE(received[i].is_leaf());
    }
    transfers.send_gradient(0, 7, back, "b").wait();
  });
}

TEST_P(TransfersTest, KeepTheirOrderForAnyOrderOfWaits) {
  constexpr int kMicroBatches = 4;
  run([](int rank, Transfers& transfers) {
    std::vector<Work> works;
    std::vector<Tensors> received(kMicroBatches);
    for (int j = 0; j < kMicroBatches; ++j) {
      works.push_back(rank == 0 ? transfers.send_activation(1, 0, message(j), "a")
                                : transfers.receive_activation(0, 0, received[j], "a"));
    }
    for (int j : {2, 0, 3, 1}) works[j].wait();
    for (int j = 0; j < kMicroBatches && rank == 1; ++j) {
      EXPECT_TRUE(received[j][0].requires_grad());
      EXPECT_TRUE(at::equal(received[j][0], message(j)[0])) << "micro-batch " << j;
      EXPECT_TRUE(at::equal(received[j][1], message(j)[1])) << "micro-batch " << j;
    }
  });
}

/// Two blocks between the same ranks (chunks), each with its own shapes.
TEST_P(TransfersTest, EachBlockHasItsOwnShapes) {
  run([](int rank, Transfers& transfers) {
    const Tensors one = {random({3, 4}, 1)}, other = {random({2}, 2), random({5, 1}, 3)};
    for (int round = 0; round < 2; ++round) {
      if (rank == 0) {
        transfers.send_activation(1, 0, one, "a").wait();
        transfers.send_activation(1, 2, other, "b").wait();
        continue;
      }
      Tensors first, second;
      const Work a = transfers.receive_activation(0, 0, first, "a"), b = transfers.receive_activation(0, 2, second, "b");
      Work(b).wait();
      Work(a).wait();
      EXPECT_TRUE(at::equal(first[0], one[0]));
      EXPECT_TRUE(at::equal(second[0], other[0]) && at::equal(second[1], other[1]));
    }
  });
}

TEST_P(TransfersTest, ShapesMayChangeFromStepToStep) {
  run([](int rank, Transfers& transfers) {
    for (const int64_t rows : {3, 5, 1, 3}) {
      transfers.begin();
      for (int j = 0; j < 2; ++j) {
        if (rank == 0) {
          transfers.send_activation(1, 0, message(j, rows), "a").wait();
          continue;
        }
        Tensors received;
        transfers.receive_activation(0, 0, received, "a").wait();
        EXPECT_TRUE(at::equal(received[0], message(j, rows)[0])) << rows << " rows";
      }
    }
  });
}

/// Steps that keep their shapes announce them once: another shape is refused until something else comes between.
TEST_P(TransfersTest, ShapesMayBeKeptFromStepToStep) {
  run([](int rank, Transfers& transfers) {
    const auto pass = [&](int64_t rows) {
      if (rank == 0) return transfers.send_activation(1, 0, message(0, rows), "a").wait();
      Tensors received;
      transfers.receive_activation(0, 0, received, "a").wait();
      EXPECT_TRUE(at::equal(received[0], message(0, rows)[0])) << rows << " rows";
    };
    for (const int64_t rows : {3, 3, 3}) {
      transfers.begin_step(/*keeps_shapes=*/true);
      pass(rows);
    }
    transfers.begin();  // an evaluation
    pass(5);
    transfers.begin_step(true);
    pass(4);
    transfers.begin_step(true);
    if (rank == 0) EXPECT_THROW(transfers.send_activation(1, 0, message(0, 6), "a"), InputError);
    transfers.begin_step(false);
    pass(6);
  });
}

/// The receiver sends gradients back for those that the first message says need them.
TEST_P(TransfersTest, AGradientThatIsNeededLaterOnlyIsRefused) {
  run([](int rank, Transfers& transfers) {
    const Tensors first = {random({3, 4}, 0)}, later = {random({3, 4}, 1).requires_grad_(true)};
    Tensors received;
    if (rank == 1) return transfers.receive_activation(0, 0, received, "a").wait();
    transfers.send_activation(1, 0, first, "a").wait();
    EXPECT_THROW(transfers.send_activation(1, 0, later, "a"), InputError);
  });
}

/// Views keep their memory layout, since kernels round by it, and so do their gradients; also empty messages.
TEST_P(TransfersTest, ViewsAndEmptyMessages) {
  run([](int rank, Transfers& transfers) {
    const Tensors sent = {random({4, 6}, 1).t(), at::zeros({0, 7}), random({2, 5, 3, 2}, 3).permute({0, 3, 1, 2}),
                          random({3, 1}, 4).expand({3, 4}), random({9}, 5).as_strided({4, 3}, {2, 1})};
    const auto gradient = [&sent](size_t i) { return random(sent[i].sizes(), 10 + static_cast<int>(i)); };
    Tensors received, nothing, gradients;
    if (rank == 0) {
      transfers.send_activation(1, 0, sent, "a").wait();
      transfers.send_activation(1, 1, {}, "b").wait();
      transfers.receive_gradient(1, 0, gradients, "c").wait();
      for (size_t i = 0; i < sent.size(); ++i) EXPECT_TRUE(at::equal(gradients[i], gradient(i))) << i;
      EXPECT_EQ(gradients[0].strides(), sent[0].strides());
      EXPECT_TRUE(gradients[3].is_contiguous());
      return;
    }
    transfers.receive_activation(0, 0, received, "a").wait();
    transfers.receive_activation(0, 1, nothing, "b").wait();
    for (size_t i = 0; i < sent.size(); ++i) {
      EXPECT_TRUE(at::equal(received[i], sent[i])) << i;
      EXPECT_EQ(received[i].strides(), sent[i].strides()) << i;
      gradients.push_back(gradient(i));
    }
    EXPECT_TRUE(nothing.empty());
    transfers.send_gradient(0, 0, gradients, "c").wait();
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, TransfersTest, ::testing::Values(BackendKind::shm, BackendKind::gloo),
                         [](const auto& info) { return info.param == BackendKind::shm ? "shm" : "gloo"; });

TEST(Transfers, TooManyTensorsAreRefusedBeforeAnythingIsSent) {
  test::run_ranks(1, [](const World& world) {
    const Group alone = pipeline_of(world, BackendKind::shm);
    Transfers transfers(alone, at::kCPU);
    try {
      transfers.send_activation(0, 0, Tensors(40, at::ones({1})), "output of h.3, micro-batch 2");
      ADD_FAILURE() << "sent";
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("output of h.3, micro-batch 2: 40 tensors"), std::string::npos) << error.what();
    }
  });
}

/// Two blocks with a message of three tensors between them: (x w, x v, ids) -> ((x w)[ids] u); x v is not read.
struct TwoBlocks {
  Parameter w{random({3}, 1), {}}, v{random({3}, 2), {}}, u{random({3}, 3), {}};

  Model model() {
    Model chain{.name = "test", .blocks = {}, .loss = sum_loss, .hits = {}};
    const auto first = [this](const Tensors& in, const Context&) -> Tensors {
      return {in[0].mul(w.value), in[0].mul(v.value), in[1]};
    };
    const auto second = [this](const Tensors& in, const Context&) -> Tensors {
      return {in[0].index_select(1, in[2]).mul(u.value)};
    };
    chain.blocks.push_back(
        {"first", "first", std::make_shared<FunctionBlock>(first, std::vector<ParamSpec>{{"w", &w, {}}, {"v", &v, {}}})});
    chain.blocks.push_back(
        {"second", "second", std::make_shared<FunctionBlock>(second, std::vector<ParamSpec>{{"u", &u, {}}})});
    return chain;
  }
};

constexpr int kMicroBatches = 3;

/// The last micro-batch has `last` rows, the others four.
NextMicroBatch batches(int step, int64_t rows = 4, int64_t last = 4) {
  return [=, j = 0]() mutable {
    const int64_t n = ++j == kMicroBatches ? last : rows;
    const at::Tensor ids = at::arange(2, -1, -1, at::kLong);
    return MicroBatch{{random({n, 3}, 100 * step + j), ids}, at::zeros({n})};
  };
}

Program program_of(int pp, Schedule (*make)(const PipelineShape&) = one_f_one_b_schedule) {
  ModelCost cost{.name = "test", .blocks = {{.name = "first", .numel = 64}, {.name = "second", .numel = 64}}};
  const Schedule schedule = pp > 1 ? make({.ranks = pp, .micro_batches = kMicroBatches}) : Schedule{};
  Program program = build_program(cost, {.pp = pp, .schedule = schedule, .micro_batches = kMicroBatches});
  verify(program);
  return program;
}

/// Runs `body` on two ranks, each with the engine of its stage.
void on_two_stages(const std::function<void(int rank, Engine&, FlatModel&, TwoBlocks&)>& body) {
  test::run_ranks(2, [&](const World& world) {
    const Mesh mesh(world, {{"pp", 2}});
    const Group pipeline = mesh.group(mesh.axis("pp"), {});
    TwoBlocks blocks;
    const int rank = world.rank();
    FlatModel model(blocks.model(), {.held = {rank == 0, rank == 1}});
    IdleUpdater updater;
    const Program program = program_of(2);
    EngineOptions options = local(kMicroBatches);
    options.groups = {{kPipelineAxis, pipeline}, {kPipelineAxis | kDataAxes, pipeline}};
    Engine engine(model, program, rank, updater, options);
    body(rank, engine, model, blocks);
  });
}

TEST(Stages, HaveTheBitsOfOneRankThatRunsBoth) {
  TwoBlocks blocks;
  FlatModel whole(blocks.model(), {});
  IdleUpdater updater;
  const Program program = program_of(1);
  Engine alone(whole, program, 0, updater, local(kMicroBatches));
  std::vector<double> losses;
  std::vector<Tensors> gradients;
  for (int step = 0; step < 3; ++step) {
    losses.push_back(alone.step(step, batches(step, 4 + step, 4 + step)).loss);
    gradients.push_back({whole.flat(0).gradients.clone(), whole.flat(1).gradients.clone()});
  }
  on_two_stages([&](int rank, Engine& engine, FlatModel& model, TwoBlocks& own) {
    for (int step = 0; step < 3; ++step) {  // each with another number of rows
      EXPECT_EQ(engine.step(step, batches(step, 4 + step, 4 + step)).loss, losses[step]) << "on both";
      EXPECT_TRUE(at::equal(model.flat(rank).gradients, gradients[step][rank])) << "step " << step << ", rank " << rank;
    }
    if (rank == 0) {
      EXPECT_TRUE(own.v.value.grad().eq(0.0).all().item<bool>()) << "an unread output has a gradient of zero";
    }
  });
  EXPECT_TRUE(gradients[0][0].ne(0.0).any().item<bool>());
}

/// The last stage loads micro-batches for their targets; it may hold the first block for its tied weights, but does not run it.
TEST(Stages, OnlyTheRankThatRunsTheFirstBlockKeepsTheInputs) {
  test::run_ranks(2, [](const World& world) {
    const Mesh mesh(world, {{"pp", 2}});
    TwoBlocks blocks;
    FlatModel model(blocks.model(), {.held = {true, world.rank() == 1}, .tied_copy = {world.rank() == 1, false}});
    std::vector<WeakStorage> inputs;
    const auto alive = [&inputs] {
      return std::count_if(inputs.begin(), inputs.end(), [](const WeakStorage& x) { return !x.expired(); });
    };
    Log log;
    LoggedUpdater updater(log, [&] { return static_cast<int>(alive()); });
    const Program program = program_of(2);
    EngineOptions options = local(kMicroBatches);
    const Group pipeline = mesh.group(mesh.axis("pp"), {});
    options.groups = {{kPipelineAxis, pipeline}, {kPipelineAxis | kDataAxes, pipeline}};
    Engine engine(model, program, world.rank(), updater, options);
    engine.step(0, [&, next = batches(0)] {
      EXPECT_TRUE(world.rank() == 0 || alive() == 0) << "the previous rank's inputs are not kept";
      MicroBatch micro = next();
      for (const at::Tensor& input : micro.inputs) inputs.push_back(input.storage().getWeakStorageImpl());
      return micro;
    });
    EXPECT_EQ(log, (Log{"alive 0", world.rank() == 0 ? "U0" : "U1"}));
  });
}

/// Messages too large to be in flight together; one micro-batch after another.
TEST(Stages, SentTensorsAreReleasedOnArrival) {
  constexpr int64_t kNumel = 1 << 20;
  for (const BackendKind backend : {BackendKind::shm, BackendKind::gloo}) {
    test::run_ranks(2, [backend](const World& world) {
      const Group pipeline = pipeline_of(world, backend);
      std::vector<WeakStorage> outputs, gradients;
      const auto alive = [](const std::vector<WeakStorage>& all) {
        return std::count_if(all.begin(), all.end(), [](const WeakStorage& x) { return !x.expired(); });
      };
      Log log;
      Model chain = logged_model(log, 2);
      for (NamedBlock& named : chain.blocks) {
        const auto run = [&, inner = named.block](const Tensors& in, const Context& context) {
          if (in[0].requires_grad()) {
            in[0].register_hook(
                [&](const at::Tensor& gradient) { gradients.push_back(gradient.storage().getWeakStorageImpl()); });
          }
          Tensors out = inner->forward(in, context);
          outputs.push_back(out[0].storage().getWeakStorageImpl());
          return out;
        };
        named.block = std::make_shared<FunctionBlock>(run, named.block->parameters());
      }
      const int rank = world.rank();
      FlatModel model(std::move(chain), {.held = {rank == 0, rank == 1}});
      IdleUpdater updater;
      const Program program = program_of(2, naive_schedule);
      EngineOptions options = local(kMicroBatches);
      options.groups = {{kPipelineAxis, pipeline}, {kPipelineAxis | kDataAxes, pipeline}};
      Engine engine(model, program, rank, updater, options);
      engine.step(0, [&, j = 0]() mutable {
        // The other rank has run its forward by now, except of the first micro-batch, which is loaded before the run.
        const bool between = rank == 0 || j == 0;
        EXPECT_EQ(alive(outputs), between ? 0 : 1) << "micro-batch " << j << ", rank " << rank;
        EXPECT_LE(alive(gradients), 1) << "one may still be in flight; micro-batch " << j << ", rank " << rank;
        return MicroBatch{{at::full({1, kNumel}, ++j)}, at::zeros({1})};
      });
    });
  }
}

TEST(Stages, AShapeThatChangesWithinAStepIsReportedWithBlockAndMicroBatch) {
  try {
    on_two_stages([](int, Engine& engine, FlatModel&, TwoBlocks&) {
      engine.step(0, batches(0));
      engine.step(1, batches(1, 4, /*last=*/2));
    });
    FAIL() << "passed";
  } catch (const test::RankError& error) {
    const std::string says = error.what();
    EXPECT_NE(says.find("rank 0: output of first, micro-batch 2: Float [2, 3], Float [2, 3], Long [3]"), std::string::npos)
        << says;
    EXPECT_NE(says.find("all of a step must match"), std::string::npos) << says;
  }
}

TEST(Stages, EvaluateTogether) {
  TwoBlocks blocks;
  FlatModel whole(blocks.model(), {});
  IdleUpdater updater;
  const Program program = program_of(1);
  Engine alone(whole, program, 0, updater, local(kMicroBatches));
  // The last micro-batch of an evaluation set may be shorter.
  const EvaluationResult expected = alone.evaluate({.count = kMicroBatches}, batches(7, 4, 2));
  EXPECT_EQ(expected.count, 10);
  on_two_stages([&](int, Engine& engine, FlatModel&, TwoBlocks&) {
    for (int round = 0; round < 2; ++round) {
      const EvaluationResult result = engine.evaluate({.count = kMicroBatches}, batches(7, 4, 2));
      EXPECT_EQ(result.loss, expected.loss);
      EXPECT_EQ(result.count, expected.count);
    }
  });
}

}  // namespace
}  // namespace weft
