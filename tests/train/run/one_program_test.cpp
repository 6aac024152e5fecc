// One program: `weft memory`, the simulator, the verifier and the engine use the same object.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/plan/forecast.h"
#include "weft/plan/make_plan.h"
#include "weft/plan/pipeline/pipeline_text.h"
#include "weft/program/defect.h"
#include "weft/program/fingerprint.h"
#include "weft/program/simulate/hardware.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/train/run/options_of_recipe.h"
#include "weft/train/run/shared_plan.h"
#include "weft/train/trainer/trainer.h"

namespace weft::one_program_test {
namespace {

using ::testing::HasSubstr;

/// Four blocks.
Recipe recipe_with(const std::vector<std::string>& overrides) {
  return parse_recipe(R"(
    model = { name = "gpt", layers = 2, heads = 2, width = 16, context = 8 }
    data = { name = "text", path = "none.txt" }
    batch = { global = 8, micro = 1 }
    run = { steps = 3 }
  )",
                      "one_program_test.toml", overrides);
}

struct Case {
  int ranks;
  std::vector<std::string> overrides;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.ranks << " ranks " << testing::PrintToString(c.overrides); }

Mesh mesh_of(const World& world, const ResolvedLayout& layout) {
  return {world, {{"pp", layout.pp}, {"dp", layout.dp}, {"shard", layout.shard}}};
}

Trainer make_trainer(const Mesh& mesh, const Recipe& recipe, const ResolvedLayout& layout,
                     std::shared_ptr<const Program> program) {
  TrainerOptions options = trainer_options(recipe, layout, at::kCPU);
  options.program = std::move(program);
  return {mesh, build_model(recipe.model), optimizer_of(recipe.optimizer), options};
}

class OneProgram : public ::testing::TestWithParam<Case> {};

TEST_P(OneProgram, FromPlanToEngine) {
  const Recipe recipe = recipe_with(GetParam().overrides);
  const int ranks = GetParam().ranks;
  const RecipeMemory priced = recipe_memory(recipe, ranks);
  const uint64_t number = fingerprint(*priced.plan.program);
  EXPECT_EQ(fingerprint(*recipe_simulation(recipe, ranks, nominal_hardware()).plan.program), number);
  test::run_ranks(ranks, [&](const World& world) {
    const Plan plan = shared_plan(recipe, world);
    EXPECT_EQ(fingerprint(*plan.program), number);
    const Mesh mesh = mesh_of(world, plan.layout);
    EXPECT_EQ(&make_trainer(mesh, recipe, plan.layout, plan.program).program(), plan.program.get());
    EXPECT_EQ(fingerprint(make_trainer(mesh, recipe, plan.layout, nullptr).program()), number)
        << "a trainer's own, of the same options";
  });
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, OneProgram,
    ::testing::Values(Case{1, {}}, Case{2, {"optimizer.clip=1"}}, Case{2, {"layout.shard_level=optimizer"}},
                      Case{4, {"layout.shard_level=parameters", "layout.shard=2", "layout.precision=bf16"}},
                      Case{4, {"layout.pp=2", "layout.shard_level=gradients", "layout.recompute=blocks"}},
                      Case{2, {"layout.pp=2", "layout.schedule=interleaved", "model.tied_embeddings=true"}},
                      Case{2, {"layout.pp=2", "layout.schedule=auto"}},
                      Case{2, {"run.reproducible_slots=4", "batch.micro=2"}}));

void expect_refused(const Mesh& mesh, const Recipe& recipe, const Recipe& other, const std::string& what) {
  const int ranks = mesh.world().size();
  try {
    make_trainer(mesh, recipe, resolve(recipe, ranks), make_plan(other, ranks).program);
    ADD_FAILURE() << what;
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("trainer: TrainerOptions::program was built for ")) << what;
    EXPECT_THAT(error.what(), HasSubstr("plan it for these, or leave it out")) << what;
  }
}

// A trainer is not handed the program of another step.
TEST(OneProgramOf, AnotherModelMeshOrBatchIsRefused) {
  const Recipe recipe = recipe_with({});
  const ResolvedLayout layout = resolve(recipe, 1);
  const Mesh mesh = mesh_of(World(), layout);
  const std::vector<std::vector<std::string>> others = {{"model.layers=3"},
                                                        {"model.width=32"},
                                                        {"batch.micro=2"},
                                                        {"layout.precision=bf16"},
                                                        {"layout.shard_level=optimizer"},
                                                        {"layout.offload_optimizer=host"}};
  for (const auto& overrides : others) expect_refused(mesh, recipe, recipe_with(overrides), overrides[0]);
}

// State that the program does not offload has no room otherwise, and vice versa; another summation order gives other bits.
TEST(OneProgramOf, OtherOffloadingOrOrderOfSumsIsRefused) {
  const std::string whole = "layout.shard_level=parameters", blocks = "layout.recompute=blocks", two = "layout.shard=2";
  const std::vector<std::array<std::vector<std::string>, 2>> pairs = {
      {{{whole, two}, {whole, two, "layout.offload_parameters=host"}}},
      {{{blocks}, {blocks, "layout.offload_activations=host"}}},
      {{{"layout.shard_level=gradients", two}, {"layout.shard_level=gradients", two, "run.reproducible_slots=2"}}},
  };
  test::run_ranks(2, [&](const World& world) {
    for (const auto& [a, b] : pairs) {
      for (const auto& [own, other] : {std::pair(a, b), std::pair(b, a)}) {
        const Recipe recipe = recipe_with(own);
        expect_refused(mesh_of(world, resolve(recipe, 2)), recipe, recipe_with(other), other.back());
      }
    }
  });
}

TEST(OneProgramOf, AProgramByHandIsVerifiedFirst) {
  const Recipe recipe = recipe_with({});
  const ResolvedLayout layout = resolve(recipe, 1);
  const Program good = *make_plan(recipe, 1).program;
  const std::function<void(InstructionList&)> damages[] = {
      [](InstructionList& list) { list.back().last = 99; },
      [](InstructionList& list) { list.clear(); },
      [](InstructionList& list) { list.push_back(list.back()); },  // a second update
      [](InstructionList& list) { list.pop_back(); },
      [](InstructionList& list) { list.erase(list.begin()); },
  };
  EXPECT_NO_THROW(make_trainer(mesh_of(World(), layout), recipe, layout, std::make_shared<Program>(good)));
  for (const auto& damage : damages) {
    auto damaged = std::make_shared<Program>(good);
    damage(damaged->lists[0]);
    EXPECT_THROW(make_trainer(mesh_of(World(), layout), recipe, layout, damaged), VerifyError);
  }
}

// Rank 1 asks for fewer activations: had it searched it would have found another schedule.
TEST(SharedPlan, IsSearchedByRankZeroAlone) {
  const std::vector<std::string> searched = {"layout.pp=2", "layout.schedule=auto", "layout.stages=\"2,2\""};
  std::vector<std::string> fewer = searched;
  fewer.push_back("layout.schedule_activations=1");
  const uint64_t number = fingerprint(*make_plan(recipe_with(searched), 2).program);
  ASSERT_NE(fingerprint(*make_plan(recipe_with(fewer), 2).program), number);
  test::run_ranks(2, [&](const World& world) {
    const Plan plan = shared_plan(recipe_with(world.rank() == 0 ? searched : fewer), world);
    EXPECT_EQ(fingerprint(*plan.program), number);
    EXPECT_EQ(plan.layout.options.pipeline.given.name, make_plan(recipe_with(searched), 2).layout.options.pipeline.given.name);
  });
}

TEST(SharedPlan, OfAnotherModelSaysWhoseScheduleItIs) {
  test::run_ranks(2, [](const World& world) {
    const Recipe recipe =
        recipe_with({"layout.pp=2", "layout.schedule=auto", world.rank() == 0 ? "batch.global=8" : "batch.global=4"});
    if (world.rank() == 0) {
      shared_plan(recipe, world);
      return;
    }
    try {
      shared_plan(recipe, world);
      ADD_FAILURE() << "no error";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("with the schedule that rank 0 found: were all started with the same recipe?"));
    }
  });
}

TEST(SharedPlan, PlanErrorsOfRankZeroReachAllRanks) {
  const Recipe tight = recipe_with({"layout.pp=2", "layout.schedule=auto", "layout.stage_gb=0.0000001"});
  EXPECT_NO_THROW(check_plan(tight, 2)) << "only a search tells";
  test::run_ranks(2, [&](const World& world) {
    try {
      shared_plan(tight, world);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("layout.stage_gb = 1e-07 allows"));
      EXPECT_EQ(dynamic_cast<const InputError*>(&error) != nullptr, world.rank() == 0);
    }
  });
}

TEST(CheckPlan, RefusesBeforeItSearches) {
  struct Refused {
    std::vector<std::string> overrides;
    const char* says;
  };
  const Refused cases[] = {
      {{"layout.pp=3", "layout.schedule=auto"}, "layout.pp = 3 does not divide"},
      {{"layout.pp=2", "layout.schedule=auto", "layout.profile=none.toml"}, "none.toml"},
      {{"layout.pp=2", "layout.schedule=auto", "batch.global=2000000"}, "searches only up to"},
      {{"layout.pp=2", "layout.stages=\"1,1\""}, "has 2 blocks in all, but the model has 4"},
      {{"layout.pp=2", "layout.stage_gb=1", "layout.schedule=csv", "layout.schedule_file=none.csv"}, "none.csv"},
      {{"layout.pp=2", "layout.stage_gb=1", "layout.schedule=interleaved", "batch.micro=8"},
       "at least as many micro-batches as ranks"},
      {{"layout.pp=2", "layout.schedule=auto", "batch.micro=8"}, "at least as many micro-batches as ranks"},
      {{"layout.pp=2", "layout.stage_gb=1", "layout.schedule=interleaved", "layout.chunks=4"}, "stages"},
  };
  for (const auto& [overrides, says] : cases) {
    try {
      check_plan(recipe_with(overrides), 2);
      ADD_FAILURE() << says;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(says));
    }
  }
}

TEST(PipelineText, IsReadBackAsItWasWritten) {
  for (const char* schedule : {"1f1b", "zb-v", "auto"}) {
    const Plan plan = make_plan(recipe_with({"layout.pp=2", std::string("layout.schedule=") + schedule}), 2);
    const PipelineOptions& pipeline = plan.layout.options.pipeline;
    const PipelineOptions read = read_pipeline(pipeline_text(pipeline, false));
    EXPECT_EQ(read.first_block, pipeline.first_block);
    EXPECT_EQ(read.given.name, pipeline.given.name);
    EXPECT_EQ(read.given.rank_of_stage, pipeline.given.rank_of_stage);
    EXPECT_EQ(read.given.tasks, pipeline.given.tasks);
    EXPECT_EQ(read.given.micro_batches, pipeline.given.micro_batches);
    const PipelineOptions named = read_pipeline(pipeline_text(pipeline, true));
    EXPECT_EQ(named.first_block, pipeline.first_block);
    EXPECT_TRUE(named.given.tasks.empty());
  }
  for (const char* damaged :
       {"", "\n0 2\nF0.0\n", "auto", "auto\n0 2", "auto\n0 x\nF0.0, B0.0\n", "auto\n0 2\n", "auto\n0 2\nF0.0\n"}) {
    EXPECT_THROW(read_pipeline(damaged), InputError) << damaged;
  }
}

}  // namespace
}  // namespace weft::one_program_test
