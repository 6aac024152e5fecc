// Token ids and targets out of range on a device other than the CPU (forced here): the step ends on every rank before its
// update, with the error of the rank that has the id, wherever blocks and loss are.
#include "weft/nn/id_checks.h"

#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/data/evaluation_loader.h"
#include "weft/models/gpt.h"
#include "weft/models/llama.h"
#include "weft/nn/operators_path.h"
#include "weft/train/trainer/trainer.h"

namespace weft::trainer_id_checks_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 4, kTokens = 16, kVocabulary = 13;

enum class Place { token, target };

struct Case {
  const char* name;
  std::vector<AxisSize> axes;
  bool llama = false;
  int pieces = 0;
  int64_t micro = 2;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

const Case kCases[] = {{"one", {{"dp", 1}}},
                       {"replicas", {{"dp", 2}}},
                       {"stages", {{"pp", 2}}},
                       {"sharded_stages", {{"pp", 2}, {"shard", 2}}, true, 0, 1},
                       {"split", {{"tp", 2}}},
                       {"in_pieces", {{"tp", 2}}, false, 2},
                       {"sequences", {{"cp", 2}}, true}};

Model model_of(const Case& c) {
  if (c.llama) {
    return llama(
        {.layers = 1, .heads = 4, .kv_heads = 2, .width = 32, .ffn = 32, .context = kTokens, .vocabulary = kVocabulary});
  }
  return gpt({.layers = 1, .heads = 4, .width = 32, .context = kTokens, .vocabulary = kVocabulary});
}

/// The same on all ranks; sample 3, token 5 gets `id`.
Batch batch_of(Place place, int64_t id) {
  const at::Generator generator = at::detail::createCPUGenerator(3);
  Batch batch{{at::randint(kVocabulary, {kBatch, kTokens}, generator, at::kLong)},
              at::randint(kVocabulary, {kBatch, kTokens}, generator, at::kLong)};
  (place == Place::token ? batch.inputs[0] : batch.target)[3][5] = id;
  return batch;
}

/// The part of this rank, among the ranks that divide the samples.
Batch part_of(const Batch& whole, const Trainer& trainer) {
  const LoaderOptions loader = trainer.loader_options();
  const int64_t samples = kBatch / loader.num_shards;
  const auto own = [&](const at::Tensor& x) { return x.narrow(0, loader.shard * samples, samples); };
  return {{own(whole.inputs[0])}, own(whole.target)};
}

class IdChecksInTraining : public testing::TestWithParam<Case> {};

TEST_P(IdChecksInTraining, EndTheStepBeforeTheUpdate) {
  const Case& c = GetParam();
  int ranks = 1;
  for (const AxisSize& axis : c.axes) ranks *= axis.size;
  for (const Place place : {Place::token, Place::target}) {
    for (const int64_t id : {kVocabulary, int64_t{-1}, int64_t{1} << 40}) {
      std::vector<std::string> errors(static_cast<size_t>(ranks));
      test::run_ranks(ranks, [&](World world) {
        const ForcedOperators forced;
        Trainer trainer(Mesh(world, c.axes), model_of(c), Sgd{.lr = 0.1},
                        {.global_batch = kBatch, .micro_batch = c.micro, .reproducible_tp = c.pieces});
        trainer.step(part_of(batch_of(place, 7), trainer));
        try {
          trainer.step(part_of(batch_of(place, id), trainer));
        } catch (const Error& error) {
          errors[static_cast<size_t>(world.rank())] = error.what();
        }
      });
      const std::string what =
          fmt::format("{} {} at [{}, ", place == Place::token ? "embedding: id" : "loss: target", id, 3 % c.micro);
      int named = 0;
      for (const std::string& error : errors) {
        EXPECT_NE(error, "") << "a rank went on: " << fmt::format("{}", fmt::join(errors, "; "));
        if (error.find(what) == std::string::npos) continue;
        ++named;
        EXPECT_THAT(error, HasSubstr("step 2, "));
        EXPECT_THAT(error, HasSubstr(fmt::format("samples from {}: ", kBatch + 3 / c.micro * c.micro)));
        EXPECT_THAT(error, HasSubstr("it must be in [0, 13)"));
      }
      EXPECT_GT(named, 0) << errors.front();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, IdChecksInTraining, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

class Wrong : public Dataset {
 public:
  int64_t size() const override { return kBatch; }
  Batch get(const std::vector<int64_t>& indices, int64_t) const override {
    const Batch all = batch_of(Place::token, 99);
    const at::Tensor rows = at::tensor(indices, at::kLong);
    return {{all.inputs[0].index_select(0, rows)}, all.target.index_select(0, rows)};
  }
};

TEST(IdChecksOfOutputs, EndEvaluationsAndPredictions) {
  const auto error_of = [](const std::function<void(Trainer&)>& call) {
    std::string text;
    test::run_ranks(1, [&](World world) {
      const ForcedOperators forced;
      Trainer trainer(Mesh(world, {{"dp", 1}}), model_of(kCases[0]), Sgd{}, {.global_batch = kBatch, .micro_batch = 2});
      try {
        call(trainer);
      } catch (const Error& error) {
        text = error.what();
      }
    });
    return text;
  };
  const char* what = "embedding: id 99 at [1, 5] is out of range";
  EXPECT_THAT(error_of([](Trainer& trainer) { trainer.predict(batch_of(Place::token, 99)); }), HasSubstr(what));
  EXPECT_THAT(error_of([](Trainer& trainer) {
                EvaluationLoader loader(std::make_shared<Wrong>(), 2, 0, 1);
                trainer.evaluate(loader);
              }),
              HasSubstr(what));
}

}  // namespace
}  // namespace weft::trainer_id_checks_test
