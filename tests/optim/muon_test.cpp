// Muon: the parameters it moves, the orthogonality of their moves, and the others' update. python/ compares with PyTorch.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linalg_svdvals.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "tests/nn/bound_layer.h"
#include "tests/support/refusal.h"
#include "weft/nn/loss/cross_entropy.h"
#include "weft/optim/block_update.h"
#include "weft/optim/hidden_matrices.h"
#include "weft/optim/make_optimizer.h"

namespace weft::muon_test {
namespace {

/// Parameters of any shapes.
class Shapes : public Block {
 public:
  explicit Shapes(std::vector<ParamSpec> specs, const std::vector<std::vector<int64_t>>& shapes) : specs_(std::move(specs)) {
    for (size_t i = 0; i < specs_.size(); ++i) {
      parameters_.push_back(std::make_unique<Parameter>(Parameter{at::randn(shapes[i]), {}}));
      specs_[i].parameter = parameters_.back().get();
    }
  }
  Tensors forward(const Tensors& inputs, const Context& /*context*/) override { return inputs; }
  std::vector<ParamSpec> parameters() override { return specs_; }

 private:
  std::vector<ParamSpec> specs_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
};

/// An embedding, a hidden block with all kinds, and a head.
Model model() {
  Model model{.name = "test", .blocks = {}, .loss = cross_entropy};
  const auto add = [&](const char* name, std::vector<ParamSpec> specs, const std::vector<std::vector<int64_t>>& shapes) {
    model.blocks.push_back({name, name, std::make_shared<Shapes>(std::move(specs), shapes)});
  };
  add("wte", {{.name = "weight", .init = {}, .embedding = true}}, {{17, 8}});
  add("h",
      {{.name = "tall", .init = {}},
       {.name = "wide", .init = {}},
       {.name = "kernel", .init = {}},
       {.name = "table", .init = {}, .embedding = true},
       {.name = "bias", .init = {}, .decay = false},
       {.name = "gain", .init = {}, .decay = false},
       {.name = "kept", .init = {}, .frozen = true}},
      {{40, 24}, {24, 40}, {12, 4, 3, 3}, {5, 24}, {40}, {24, 1}, {6, 6}});
  add("head", {{.name = "weight", .init = {}}}, {{17, 24}});
  return model;
}

std::vector<std::string> found(const ParameterRules& rules = {}) {
  const FlatModel flat(model(), {});
  const std::vector<bool> matrices = hidden_matrices(flat, rules);
  std::vector<std::string> names;
  for (size_t i = 0; i < matrices.size(); ++i) {
    if (matrices[i]) names.push_back(flat.params()[i].name);
  }
  return names;
}

TEST(HiddenMatrices, AreNeitherEmbeddingsNorTheHeadNorVectors) {
  EXPECT_EQ(found(), (std::vector<std::string>{"h.tall", "h.wide", "h.kernel"}));
  EXPECT_EQ(found({{.names = "h.wide", .muon = false}, {.names = "head.*", .muon = true}}),
            (std::vector<std::string>{"h.tall", "h.kernel", "head.weight"}));
}

TEST(HiddenMatrices, NoneOrNotOneIsAnError) {
  EXPECT_NE(test::refusal([] { found({{.names = "h.*", .muon = false}}); }).find("has no hidden matrix"), std::string::npos);
  const std::string says = test::refusal([] { found({{.names = "h.bias", .muon = true}}); });
  EXPECT_NE(says.find("'h.bias' has 1 dimension, and Muon updates only matrices"), std::string::npos) << says;
}

/// The estimate for an unbound model matches the state of a bound one.
TEST(HiddenMatrices, AreCountedBeforehand) {
  const std::vector<BlockUpdate> updates = block_updates(model(), Muon{}, {}, 4);
  FlatModel flat(model(), {});
  const auto optimizer = make_optimizer(flat, Muon{});
  for (int b = 0; b < flat.num_blocks(); ++b) {
    EXPECT_EQ(optimizer->state_numels(b),
              (std::vector<int64_t>{flat.flat(b).numel * updates[b].states, updates[b].part_state}));
    EXPECT_EQ(updates[b].gathered_bytes, b == 1 ? 2 : 0);
  }
  EXPECT_EQ(updates[1].part_state, 5 * 24 + 40 + 24) << "of matrices there is one state";
}

/// The values of a parameter.
at::Tensor value_of(FlatModel& flat, const std::string& name) {
  for (const Param& param : flat.params()) {
    if (param.name != name) continue;
    const FlatBlock& block = flat.flat(param.block);
    const FlatPart& part = param.group == ParamGroup::frozen ? block.frozen : block;
    return part.master.narrow(0, param.offset - part.begin, param.numel).clone().view(param.shape);
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(Muon, MovesMatricesOrthogonally) {
  for (const MatrixRate rate : {MatrixRate::original, MatrixRate::match_rms_adamw}) {
    FlatModel flat(model(), {});
    const auto optimizer = make_optimizer(flat, Muon{.adjust = rate, .weight_decay = 0.0});
    flat.flat(1).gradients.normal_();
    const std::vector<std::string> names = {"h.tall", "h.wide", "h.kernel"};
    std::vector<at::Tensor> before;
    for (const std::string& name : names) before.push_back(value_of(flat, name));
    optimizer->update(1, {.lr = 0.5, .divisor = 2.0});
    for (size_t i = 0; i < names.size(); ++i) {
      const at::Tensor move = (before[i] - value_of(flat, names[i])).flatten(1);
      const auto rows = static_cast<double>(move.size(0)), columns = static_cast<double>(move.size(1));
      const double scale =
          rate == MatrixRate::original ? std::sqrt(std::max(1.0, rows / columns)) : 0.2 * std::sqrt(std::max(rows, columns));
      const at::Tensor values = at::linalg_svdvals(move) / (0.5 * scale);
      EXPECT_GT(values.min().item<double>(), 0.5) << names[i];
      EXPECT_LT(values.max().item<double>(), 1.3) << names[i];
    }
  }
}

/// Their rate follows the schedule like that of matrices.
TEST(Muon, GivesTheOthersTheUpdateOfAdamW) {
  FlatModel flat(model(), {}), other(model(), {});
  for (int b = 0; b < 3; ++b) other.flat(b).master.copy_(flat.flat(b).master);
  const Muon options{.lr = 0.02, .weight_decay = 0.1, .adam_lr = 0.001, .beta1 = 0.8};
  const auto muon = make_optimizer(flat, options);
  const auto adamw = make_optimizer(other, AdamW{.beta1 = 0.8, .weight_decay = 0.1});
  for (int step = 0; step < 3; ++step) {
    for (int b = 0; b < 3; ++b) {
      flat.flat(b).gradients.normal_();
      other.flat(b).gradients.copy_(flat.flat(b).gradients);
      muon->update(b, {.lr = 0.01, .divisor = 3.0});
      adamw->update(b, {.lr = 0.0005, .divisor = 3.0});
    }
  }
  for (const char* name : {"wte.weight", "h.table", "h.bias", "h.gain", "head.weight"}) {
    EXPECT_LT((value_of(flat, name) - value_of(other, name)).abs().max().item<double>(), 1e-7) << name;
  }
  EXPECT_GT((value_of(flat, "h.wide") - value_of(other, "h.wide")).abs().max().item<double>(), 1e-3);
}

TEST(Muon, HeedsRulesByName) {
  FlatModel flat(model(), {});
  const auto optimizer =
      make_optimizer(flat, Muon{}, {{.names = "h.tall", .lr_factor = 0.0}, {.names = "h.wide", .weight_decay = 0.0}});
  const at::Tensor tall = value_of(flat, "h.tall"), wide = value_of(flat, "h.wide"), kept = value_of(flat, "h.kept");
  flat.flat(1).gradients.zero_();  // so that only decay moves weights
  optimizer->update(1, {.lr = 0.5});
  EXPECT_TRUE(at::equal(value_of(flat, "h.tall"), tall));
  EXPECT_TRUE(at::equal(value_of(flat, "h.wide"), wide));
  EXPECT_TRUE(at::equal(value_of(flat, "h.kept"), kept));
}

}  // namespace
}  // namespace weft::muon_test
