// Wrong split tables, ids, targets and meshes of split layers: an error of one line that names what, on every rank, and nothing
// that trains on in silence.
#include <ATen/ops/randint.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <utility>

#include "tests/support/run_ranks.h"
#include "weft/base/error.h"
#include "weft/models/gpt.h"
#include "weft/train/trainer/trainer.h"

namespace weft::split_misuse_test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBatch = 2, kTokens = 8, kVocabulary = 13;

Model small_gpt() { return gpt({.layers = 1, .heads = 2, .width = 16, .context = kTokens, .vocabulary = kVocabulary}); }

SplitRule& rule_of(Model& model, const std::string& layer) {
  return *std::find_if(model.splits.begin(), model.splits.end(), [&](const SplitRule& rule) { return rule.layer == layer; });
}

/// The error of every rank that makes a trainer and one step of the batch; "" where there is none.
std::vector<std::string> errors_of(const std::vector<AxisSize>& axes, const std::function<Model()>& model, const Batch& batch,
                                   bool sequence_parallel = false, int reproducible_tp = 0) {
  int ranks = 1;
  for (const AxisSize& axis : axes) ranks *= axis.size;
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  test::run_ranks(ranks, [&](World world) {
    try {
      Trainer trainer(Mesh(world, axes), model(), Sgd{},
                      {.global_batch = kBatch,
                       .micro_batch = kBatch,
                       .reproducible_tp = reproducible_tp,
                       .layout = {.sequence_parallel = sequence_parallel}});
      trainer.step(batch);
    } catch (const Error& error) {
      errors[static_cast<size_t>(world.rank())] = error.what();
    }
  });
  return errors;
}

Batch batch_of(int64_t tokens = kTokens) {
  const at::Generator generator = at::detail::createCPUGenerator(3);
  return {{at::randint(kVocabulary, {kBatch, tokens}, generator, at::kLong)},
          at::randint(kVocabulary, {kBatch, tokens}, generator, at::kLong)};
}

/// Samples that are drawn anew at each reading, and so differ by ranks.
class Drawn : public Dataset {
 public:
  explicit Drawn(int rank) : rank_(rank) {}
  int64_t size() const override { return 4; }
  Batch get(const std::vector<int64_t>& indices, int64_t) const override {
    const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(rank_) + 1);
    const at::Tensor ids = at::randint(kVocabulary, {static_cast<int64_t>(indices.size()), kTokens}, generator, at::kLong);
    return {{ids}, ids, 0};
  }

 private:
  int rank_;
};

TEST(SplitMisuse, OtherSamplesOnOneAxisAreFoundInEvaluations) {
  for (const std::string axis : {"pp", "tp", "cp"}) {
    test::run_ranks(2, [&](World world) {
      Trainer trainer(Mesh(world, {{axis, 2}}), small_gpt(), Sgd{}, {.global_batch = 2, .micro_batch = 1});
      EvaluationLoader loader(std::make_shared<Drawn>(world.rank()), 2, 0, 1);
      std::string error;
      try {
        trainer.evaluate(loader);
      } catch (const InputError& refusal) {
        error = refusal.what();
      }
      EXPECT_THAT(error, HasSubstr("index 1 on axis '" + axis + "' got different samples from index 0"));
    });
  }
}

/// Each rank of one replica reads its own samples, as under data parallelism.
TEST(SplitMisuse, OtherSamplesOnOneAxisAreFound) {
  struct Case {
    std::vector<AxisSize> axes;
    std::function<int(int rank)> seed;  ///< of a rank's samples
    std::string says;                   ///< "": nothing is wrong
  };
  const Case cases[] = {
      {{{"tp", 2}}, [](int rank) { return rank; }, "index 1 on axis 'tp' got different samples from index 0"},
      {{{"cp", 2}}, [](int rank) { return rank; }, "index 1 on axis 'cp' got different samples from index 0"},
      {{{"cp", 2}, {"tp", 2}}, [](int rank) { return rank / 2; }, "on axis 'cp'"},
      {{{"cp", 2}, {"tp", 2}}, [](int rank) { return rank % 2; }, "on axis 'tp'"},
      {{{"dp", 2}, {"tp", 2}}, [](int rank) { return rank / 2; }, ""},
      {{{"pp", 2}},
       [](int rank) { return rank; },
       "index 1 on axis 'pp' got different samples from index 0, in inputs and targets"},
      {{{"pp", 3}}, [](int rank) { return rank / 2; }, "index 2 on axis 'pp' got different samples from index 0"},
      {{{"pp", 3}}, [](int rank) { return rank % 2; }, ""},  // the stage in the middle reads none
  };
  for (const Case& c : cases) {
    int ranks = 1;
    for (const AxisSize& axis : c.axes) ranks *= axis.size;
    test::run_ranks(ranks, [&](World world) {
      const int64_t share = c.axes.front().name == "dp" ? 2 : 4;
      Trainer trainer(Mesh(world, c.axes), small_gpt(), Sgd{}, {.global_batch = 4, .micro_batch = 1});
      const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(c.seed(world.rank())) + 1);
      const at::Tensor ids = at::randint(kVocabulary, {share, kTokens}, generator, at::kLong);
      std::string error;
      try {
        trainer.step({{ids}, ids});
      } catch (const InputError& refusal) {
        error = refusal.what();
      }
      EXPECT_EQ(error.empty(), c.says.empty()) << error;
      EXPECT_THAT(error, HasSubstr(c.says));
    });
  }
}

struct Table {
  std::string name;
  std::function<void(Model& model)> edit;
  std::string says;
  bool at_once = true;  ///< when the trainer is made; else in the first step
};

void PrintTo(const Table& table, std::ostream* out) { *out << table.name; }

class WrongTable : public ::testing::TestWithParam<Table> {};

TEST_P(WrongTable, IsRefused) {
  const Table& table = GetParam();
  const auto model = [&table] {
    Model model = small_gpt();
    table.edit(model);
    return model;
  };
  for (const std::string& error : errors_of({{"tp", 2}}, model, batch_of())) {
    EXPECT_THAT(error, HasSubstr(table.says));
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
  if (table.at_once) {
    EXPECT_THROW(Trainer(Mesh(World::threads(2)[0], {{"tp", 2}}), model(), Sgd{}, {}), InputError);
  }
}

const auto kRows = SplitKind::rows, kColumns = SplitKind::columns, kByVocabulary = SplitKind::vocabulary;

INSTANTIATE_TEST_SUITE_P(
    SplitMisuse, WrongTable,
    ::testing::Values(
        Table{"no_such_layer", [](Model& m) { m.splits.push_back({.layer = "h.*.attn"}); }, "layer h.*.attn: its split table"},
        Table{"no_name", [](Model& m) { m.splits.push_back({}); }, "no layer of that name has a weight"},
        Table{"twice", [](Model& m) { m.splits.push_back({.layer = "h.0.mlp.c_fc"}); }, "h.0.mlp.c_fc: two rules"},
        Table{"unit_0", [](Model& m) { rule_of(m, "h.*.mlp.c_fc").unit = 0; }, "h.0.mlp.c_fc: its rule keeps 0 positions"},
        Table{"unit_below_0", [](Model& m) { rule_of(m, "h.*.mlp.c_fc").unit = -4; }, "keeps -4 positions together"},
        Table{"unit_too_large", [](Model& m) { rule_of(m, "h.*.mlp.c_fc").unit = 1 << 20; }, "are not a multiple of 1048576"},
        Table{"segment_below_0",
              [](Model& m) {
                rule_of(m, "h.*.mlp.c_fc").segments = {-16, 80};
              },
              "segment of -16"},
        Table{"segments_too_short",
              [](Model& m) {
                rule_of(m, "h.*.mlp.c_fc").segments = {16, 16};
              },
              "32 positions in all"},
        Table{"norm_by_columns", [](Model& m) { m.splits.push_back({.layer = "ln_f"}); }, "ln_f: its weight has 1 dim"},
        Table{"norm_by_rows",
              [](Model& m) {
                m.splits.push_back({"ln_f", kRows});
              },
              "ln_f: its weight has 1 dim"},
        Table{"sum_joined", [](Model& m) { rule_of(m, "h.*.mlp.c_proj").joined = true; }, "leave out joined"},
        Table{"vocabulary_of_heads", [](Model& m) { rule_of(m, "h.*.attn.c_attn").kind = kByVocabulary; }, "pads a vocabulary"},
        Table{"vocabulary_by_columns", [](Model& m) { rule_of(m, "lm_head").kind = kColumns; },
              "does not divide its 13 outputs"},
        Table{"embedding_by_rows", [](Model& m) { rule_of(m, "wte").kind = kRows; }, "layer wte: an embedding", false},
        Table{"rows_left_out",
              [](Model& m) { std::erase_if(m.splits, [](const auto& r) { return r.layer == "h.*.mlp.c_proj"; }); },
              "block 'h.0': a linear layer without a split rule takes rows of 64, but its input has rows of 32", false},
        Table{"less_than_a_head",
              [](Model& m) {
                m = gpt({.layers = 1, .heads = 1, .width = 16, .context = kTokens, .vocabulary = kVocabulary});
                for (const char* layer : {"h.*.attn.c_attn", "h.*.attn.c_proj"}) rule_of(m, layer).unit = 1;
              },
              "do not hold queries, keys and values of 0 heads", false}),
    [](const auto& info) { return info.param.name; });

// On one device LibTorch refuses them. Where each rank looks for its own, none finds these.
TEST(SplitMisuse, IdsAndTargetsOutOfRangeAreNotSkipped) {
  struct Wrong {
    bool target;
    int64_t value;
    const char* says;
  };
  const Wrong cases[] = {{false, kVocabulary, "index out of range"}, {false, -1, "index out of range"},
                         {false, 1 << 20, "index out of range"},     {true, kVocabulary, "target 13 is not one of 13 classes"},
                         {true, -1, "target -1 is not one of"},      {true, 1 << 20, "target 1048576 is not one of"}};
  for (const Wrong& wrong : cases) {
    for (const int tp : {2, 4}) {
      for (const bool sequence_parallel : {false, true}) {
        Batch batch = batch_of();
        (wrong.target ? batch.target : batch.inputs[0])[1][3] = wrong.value;
        const auto model = [] {
          return gpt({.layers = 1, .heads = 4, .width = 16, .context = kTokens, .vocabulary = kVocabulary});
        };
        for (const std::string& error : errors_of({{"tp", tp}}, model, batch, sequence_parallel))
          EXPECT_THAT(error, HasSubstr(wrong.says)) << tp << ' ' << wrong.value;
      }
    }
  }
}

/// A target is checked by the loss before; here nothing but the embedding sees the id.
TEST(SplitMisuse, IdsOutOfRangeAreNotSkippedInPieces) {
  for (const int64_t value : {kVocabulary, int64_t{-1}, int64_t{1} << 20}) {
    for (const int tp : {1, 2}) {
      Batch batch = batch_of();
      batch.inputs[0][1][3] = value;
      for (const std::string& error : errors_of({{"tp", tp}}, small_gpt, batch, false, 2))
        EXPECT_THAT(error, HasSubstr("index out of range")) << tp << ' ' << value;
    }
  }
}

TEST(SplitMisuse, HandMadeSamplesThatDoNotFallIntoParts) {
  for (const std::string& error : errors_of({{"cp", 2}}, small_gpt, batch_of(6))) EXPECT_THAT(error, HasSubstr("6 tokens"));
  for (const std::string& error : errors_of({{"tp", 2}}, small_gpt, batch_of(7), true))
    EXPECT_THAT(error, HasSubstr("7 positions along dim 1 do not divide"));
  Batch flat = batch_of();
  flat.target = flat.target.select(1, 0);
  for (const std::string& error : errors_of({{"cp", 2}}, small_gpt, flat)) EXPECT_THAT(error, HasSubstr("have no tokens"));
}

/// Runs a block with a context that knows nothing of its ranks.
class WithoutRanks : public Block {
 public:
  explicit WithoutRanks(std::shared_ptr<Block> block) : block_(std::move(block)) {}
  Tensors forward(const Tensors& inputs, const Context& context) override {
    return block_->forward(inputs, {.seed = context.seed, .step = context.step});
  }
  std::vector<ParamSpec> parameters() override { return block_->parameters(); }

 private:
  std::shared_ptr<Block> block_;
};

// The sum over the ranks of such a context is of one of the parts.
TEST(SplitMisuse, ContextsMadeByHand) {
  for (const int block : {0, 1, 2}) {
    const auto model = [block] {
      Model model = small_gpt();
      model.blocks[block].block = std::make_shared<WithoutRanks>(model.blocks[block].block);
      return model;
    };
    for (const std::string& error : errors_of({{"tp", 2}}, model, batch_of()))
      EXPECT_THAT(error, HasSubstr("it is split over 2 ranks, but Context::tp has 1"));
  }
}

TEST(SplitMisuse, Meshes) {
  const std::pair<std::vector<AxisSize>, const char*> cases[] = {
      {{{"tp", 2}, {"dp", 2}}, "outermost first, they must be in the order"},
      {{{"tp", 2}, {"cp", 2}}, "outermost first, they must be in the order"},
      {{{"ep", 2}}, "mesh axis 'ep' has size 2"},
      {{{"tp", 8}}, "layout.tp = 8 does not divide its 2 heads"},
  };
  for (const auto& [axes, says] : cases) {
    for (const std::string& error : errors_of(axes, small_gpt, batch_of())) EXPECT_THAT(error, HasSubstr(says));
  }
}

}  // namespace
}  // namespace weft::split_misuse_test
