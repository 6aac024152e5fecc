// The fused optimizers against their formulas, written out in float64.
#include "weft/optim/optimizer.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/nn/bound_layer.h"
#include "weft/base/error.h"
#include "weft/optim/clip.h"
#include "weft/optim/learning_rate.h"

namespace weft {
namespace {

/// A matrix that decays and a bias that does not; neither is a multiple of a vector's length, so that tails are covered too.
struct TwoParameters {
  Parameter matrix{at::randn({7, 11}), {}};
  Parameter bias{at::randn({11}), {}};
  FlatModel flat = bind_block(
      std::make_shared<FunctionBlock>([](const Tensors& in, const Context&) { return in; },
                                      std::vector<ParamSpec>{{"matrix", &matrix, {}}, {"bias", &bias, {}, /*decay=*/false}}));
};

struct Case {
  std::string name;
  OptimizerOptions options;
  double divisor = 1.0;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

/// One element through `steps` updates with gradient g each.
class Reference {
 public:
  explicit Reference(double w) : w_(w) {}

  double step(const AdamW& o, double lr, double g, bool decay) {
    ++t_;
    w_ -= lr * (decay ? o.weight_decay : 0.0) * w_;
    m_ = o.beta1 * m_ + (1 - o.beta1) * g;
    v_ = o.beta2 * v_ + (1 - o.beta2) * g * g;
    w_ -= lr * (m_ / (1 - std::pow(o.beta1, t_))) / (std::sqrt(v_ / (1 - std::pow(o.beta2, t_))) + o.eps);
    return w_;
  }

  double step(const Sgd& o, double lr, double g, bool decay) {
    g += (decay ? o.weight_decay : 0.0) * w_;
    m_ = o.momentum * m_ + g;
    w_ -= lr * (o.nesterov ? g + o.momentum * m_ : m_);
    return w_;
  }

 private:
  double w_, m_ = 0.0, v_ = 0.0;
  int t_ = 0;
};

class OptimizerTest : public ::testing::TestWithParam<Case> {};

TEST_P(OptimizerTest, FollowsItsFormula) {
  const Case& c = GetParam();
  TwoParameters p;
  std::unique_ptr<Optimizer> optimizer = make_optimizer(p.flat, c.options);
  const at::Tensor start = p.flat.flat(0).weights.clone();
  std::vector<int64_t> elements;
  for (const GroupRange& group : p.flat.flat(0).groups) {
    for (int64_t i = group.begin; i < group.end; ++i) elements.push_back(i);
  }
  ASSERT_EQ(elements.size(), 88u);
  std::map<int64_t, Reference> references;
  for (int64_t i : elements) references.emplace(i, start[i].item<double>());
  for (int step = 0; step < 3; ++step) {
    const at::Tensor g = at::randn(start.sizes());
    p.flat.flat(0).gradients.copy_(g);
    const double lr = 0.01 / (step + 1);
    optimizer->update(0, {.lr = lr, .divisor = c.divisor, .number = step + 1});
    for (int64_t i : elements) {
      const double gradient = g[i].item<double>() / c.divisor;
      const double expected =
          std::visit([&](const auto& o) { return references.at(i).step(o, lr, gradient, i < 77); }, c.options);
      EXPECT_NEAR(p.flat.flat(0).weights[i].item<double>(), expected, 2e-6) << "element " << i << " step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Table, OptimizerTest,
                         ::testing::Values(Case{"adamw", AdamW{}}, Case{"adamw_decay", AdamW{.weight_decay = 0.5}},
                                           Case{"adamw_divisor", AdamW{}, 3.0}, Case{"sgd", Sgd{.momentum = 0.0}},
                                           Case{"sgd_momentum", Sgd{.weight_decay = 0.1}},
                                           Case{"sgd_nesterov", Sgd{.nesterov = true}}, Case{"sgd_divisor", Sgd{}, 0.5}),
                         [](const auto& info) { return info.param.name; });

TEST(Optimizer, RefusesValuesOutOfRange) {
  TwoParameters p;
  for (const OptimizerOptions& bad : std::vector<OptimizerOptions>{
           AdamW{.lr = -1}, AdamW{.beta1 = 1.0}, AdamW{.beta2 = -0.1}, AdamW{.eps = 0.0}, AdamW{.weight_decay = -1},
           Sgd{.lr = -1}, Sgd{.momentum = 1.0}, Sgd{.momentum = 0.0, .nesterov = true}}) {
    EXPECT_THROW(make_optimizer(p.flat, bad), InputError);
  }
}

TEST(Clip, NormCountsEveryTrainedElementOnce) {
  TwoParameters p;
  p.flat.flat(0).gradients.fill_(2.0);  // the padding too, which must not count
  ExactSum sum;
  add_squares(p.flat, sum);
  EXPECT_EQ(sum.value(), 88.0 * 4.0);
  EXPECT_DOUBLE_EQ(clip_factor(10.0, 1.0), 0.1);
  EXPECT_DOUBLE_EQ(clip_factor(0.5, 1.0), 1.0);
}

TEST(LearningRate, FollowsItsTable) {
  struct Row {
    LearningRate rate;
    int64_t step;
    double expected;
  };
  const LearningRate warm{.peak = 2.0, .warmup = 4, .steps = 14, .decay = Decay::cosine, .final_share = 0.1};
  LearningRate linear = warm, constant = warm, drops = warm;
  linear.decay = Decay::linear;
  constant.decay = Decay::constant;
  drops.decay = Decay::step;
  drops.decay_every = 3;
  drops.decay_factor = 0.5;
  for (const Row& row : std::vector<Row>{{warm, 0, 0.5},
                                         {warm, 3, 2.0},
                                         {warm, 8, 1.1},
                                         {warm, 13, 0.2},
                                         {warm, 99, 0.2},
                                         {linear, 4, 1.82},
                                         {linear, 8, 1.1},
                                         {linear, 13, 0.2},
                                         {linear, 99, 0.2},
                                         {constant, 13, 2.0},
                                         {drops, 6, 2.0},
                                         {drops, 7, 1.0},
                                         {drops, 10, 0.5}}) {
    EXPECT_NEAR(row.rate.at(row.step), row.expected, 1e-12) << "step " << row.step;
  }
}

TEST(LearningRate, ReachesThePeakAndTheFinalRateToTheBit) {
  for (const Decay decay : {Decay::linear, Decay::cosine}) {
    for (const double share : {0.0, 0.1, 0.3, 1.0}) {
      for (const int64_t warmup : {0, 1, 7}) {
        for (const int64_t steps : {warmup + 1, warmup + 2, warmup + 100}) {
          if (steps == 1) continue;
          const LearningRate rate{.peak = 3e-4, .warmup = warmup, .steps = steps, .decay = decay, .final_share = share};
          const int64_t top = std::max<int64_t>(0, warmup - 1);
          SCOPED_TRACE(testing::Message() << static_cast<int>(decay) << " to " << share << ", " << warmup << " of " << steps);
          EXPECT_EQ(rate.at(top), 3e-4);
          EXPECT_EQ(rate.at(steps - 1), 3e-4 * share);
          for (int64_t step = 1; step < steps; ++step) {
            EXPECT_TRUE(step <= top ? rate.at(step) > rate.at(step - 1) : rate.at(step) <= rate.at(step - 1)) << step;
            EXPECT_TRUE(step <= top || share == 1.0 || rate.at(step) < rate.at(step - 1)) << "the peak comes once";
          }
        }
      }
    }
  }
}

TEST(LearningRate, OfASingleStepIsThePeak) {
  for (const Decay decay : {Decay::constant, Decay::linear, Decay::cosine}) {
    EXPECT_EQ((LearningRate{.peak = 2.0, .steps = 1, .decay = decay}.at(0)), 2.0);
  }
}

}  // namespace
}  // namespace weft
