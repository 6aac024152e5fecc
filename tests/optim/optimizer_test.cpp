// The fused optimizers against their formulas, written out in float64.
#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "tests/nn/bound_layer.h"
#include "tests/optim/custom_lion.h"
#include "weft/base/error.h"
#include "weft/nn/exact_sums.h"
#include "weft/optim/clip.h"
#include "weft/optim/learning_rate.h"
#include "weft/optim/make_optimizer.h"

namespace weft {
namespace {

/// A matrix that decays and a bias that does not; neither is a multiple of a vector's length, so that tails are covered.
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

/// One tensor in float64, by the formulas of optimizer_options.h.
class Reference {
 public:
  /// `shape` is the shape of the tensor, whose values are flattened.
  Reference(const at::Tensor& w, std::vector<int64_t> shape)
      : w_(w.to(at::kDouble)), m_(at::zeros_like(w_)), v_(at::zeros_like(w_)), shape_(std::move(shape)) {}

  const at::Tensor& values() const { return w_; }

  void step(const AdamW& o, double lr, at::Tensor g, bool decay) {
    ++t_;
    w_ = w_ - lr * (decay ? o.weight_decay : 0.0) * w_;
    w_ = w_ - lr * adam(o.beta1, o.beta2, o.eps, g);
  }

  void step(const Sgd& o, double lr, at::Tensor g, bool decay) {
    g = g + (decay ? o.weight_decay : 0.0) * w_;
    m_ = o.momentum * m_ + g;
    w_ = w_ - lr * (o.nesterov ? g + o.momentum * m_ : m_);
  }

  void step(const Lars& o, double lr, at::Tensor g, bool decay) {
    double ratio = 1.0;
    if (decay) {
      ratio = o.trust * norm(w_) / (norm(g) + o.weight_decay * norm(w_) + o.eps);
      if (o.trust_limit > 0.0) ratio = std::min(ratio, o.trust_limit);
    }
    g = ratio * (g + (decay ? o.weight_decay : 0.0) * w_);
    m_ = o.momentum * m_ + g;
    w_ = w_ - lr * (o.nesterov ? g + o.momentum * m_ : m_);
  }

  void step(const Lamb& o, double lr, at::Tensor g, bool decay) {
    ++t_;
    const at::Tensor move = adam(o.beta1, o.beta2, o.eps, g) + (decay ? o.weight_decay : 0.0) * w_;
    double ratio = decay ? norm(w_) / norm(move) : 1.0;
    if (decay && o.trust_limit > 0.0) ratio = std::min(ratio, o.trust_limit);
    w_ = w_ - lr * ratio * move;
  }

  void step(const Lion& o, double lr, at::Tensor g, bool decay) {
    w_ = w_ - lr * ((o.beta1 * m_ + (1 - o.beta1) * g).sign() + (decay ? o.weight_decay : 0.0) * w_);
    m_ = o.beta2 * m_ + (1 - o.beta2) * g;
  }

  void step(const CustomOptimizer& o, double lr, const at::Tensor& g, bool decay) {
    step(Lion{.weight_decay = o.weight_decay}, lr, g, decay);
  }

  void step(const RmsProp& o, double lr, at::Tensor g, bool decay) {
    g = g + (decay ? o.weight_decay : 0.0) * w_;
    v_ = o.alpha * v_ + (1 - o.alpha) * g * g;
    m_ = o.momentum * m_ + g / (v_.sqrt() + o.eps);
    w_ = w_ - lr * m_;
  }

  void step(const Adagrad& o, double lr, at::Tensor g, bool decay) {
    g = g + (decay ? o.weight_decay : 0.0) * w_;
    v_ = v_ + g * g;
    w_ = w_ - lr * g / (v_.sqrt() + o.eps);
  }

  void step(const Adafactor& o, double lr, at::Tensor g, bool decay) {
    ++t_;
    const double share = std::pow(t_, o.beta2_decay);
    const at::Tensor squares = g.view(shape_).square();
    const double rate = std::min(lr, 1 / std::sqrt(t_)) * std::max(o.min_rms, norm(w_) / std::sqrt(g.numel()));
    at::Tensor estimate;
    if (shape_.size() == 2) {
      rows_ = (1 - share) * rows_ + share * squares.mean(1, true);
      columns_ = (1 - share) * columns_ + share * squares.mean(0, true);
      estimate = at::matmul(rows_, columns_) / rows_.mean();
    } else {
      v_ = (1 - share) * v_ + share * squares;
      estimate = v_;
    }
    const at::Tensor move = g.view(shape_) / estimate.clamp_min(o.eps * o.eps).sqrt();
    w_ = w_ - lr * (decay ? o.weight_decay : 0.0) * w_;
    w_ = w_ - rate / std::max(1.0, norm(move) / std::sqrt(g.numel()) / o.update_clip) * move.view(w_.sizes());
  }

  void step(const Muon& /*o*/, double /*lr*/, const at::Tensor& /*g*/, bool /*decay*/) { FAIL() << "muon_test.cpp has Muon"; }

 private:
  static double norm(const at::Tensor& values) { return std::sqrt(values.square().sum().item<double>()); }

  at::Tensor adam(double beta1, double beta2, double eps, const at::Tensor& g) {
    m_ = beta1 * m_ + (1 - beta1) * g;
    v_ = beta2 * v_ + (1 - beta2) * g * g;
    return (m_ / (1 - std::pow(beta1, t_))) / ((v_ / (1 - std::pow(beta2, t_))).sqrt() + eps);
  }

  at::Tensor w_, m_, v_;
  at::Tensor rows_ = at::zeros({1, 1}, at::kDouble), columns_ = rows_;
  std::vector<int64_t> shape_;
  int t_ = 0;
};

/// An update as in a step: norms first, if the optimizer needs them.
void update(Optimizer& optimizer, const FlatModel& model, const UpdateStep& step) {
  const at::Tensor squares = exact_sums(2 * static_cast<int64_t>(model.params().size()), at::kCPU);
  optimizer.add_tensor_squares(step, squares);
  optimizer.take_tensor_squares(step, sums_in(squares));
  optimizer.update(0, step);
}

class OptimizerTest : public ::testing::TestWithParam<Case> {};

TEST_P(OptimizerTest, FollowsItsFormula) {
  const Case& c = GetParam();
  TwoParameters p;
  std::unique_ptr<Optimizer> optimizer = make_optimizer(p.flat, c.options);
  const std::vector<Param>& params = p.flat.params();
  ASSERT_EQ(params.size(), 2u);
  const auto part = [&](const at::Tensor& whole, const Param& param) { return whole.narrow(0, param.offset, param.numel); };
  std::vector<Reference> references;
  for (const Param& param : params) references.emplace_back(part(p.flat.flat(0).weights, param), param.shape);
  for (int step = 0; step < 20; ++step) {
    const at::Tensor g = at::randn(p.flat.flat(0).gradients.sizes());
    p.flat.flat(0).gradients.copy_(g);
    const double lr = 0.01 / (step + 1);
    update(*optimizer, p.flat, {.lr = lr, .divisor = c.divisor});
    for (size_t i = 0; i < params.size(); ++i) {
      const at::Tensor gradient = part(g, params[i]).to(at::kDouble) / c.divisor;
      std::visit([&](const auto& o) { references[i].step(o, lr, gradient, params[i].group == ParamGroup::decay); }, c.options);
      const at::Tensor ours = part(p.flat.flat(0).weights, params[i]).to(at::kDouble);
      EXPECT_LT((ours - references[i].values()).abs().max().item<double>(), 1e-6) << params[i].name << " step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, OptimizerTest,
    ::testing::Values(Case{"adamw", AdamW{}}, Case{"adamw_decay", AdamW{.weight_decay = 0.5}},
                      Case{"adamw_divisor", AdamW{}, 3.0}, Case{"sgd", Sgd{.momentum = 0.0}},
                      Case{"sgd_momentum", Sgd{.weight_decay = 0.1}}, Case{"sgd_nesterov", Sgd{.nesterov = true}},
                      Case{"sgd_divisor", Sgd{}, 0.5}, Case{"lars", Lars{.weight_decay = 0.1, .trust = 0.02}, 3.0},
                      Case{"lars_nesterov", Lars{.weight_decay = 0.1, .nesterov = true}},
                      Case{"lars_limit", Lars{.momentum = 0.0, .trust = 0.5, .trust_limit = 0.4}},
                      Case{"lamb", Lamb{.weight_decay = 0.1}, 3.0}, Case{"lamb_limit", Lamb{.trust_limit = 0.5}},
                      Case{"lion", Lion{.weight_decay = 0.1}, 3.0}, Case{"custom_lion", test::custom_lion(0.1), 3.0},
                      Case{"rmsprop", RmsProp{.weight_decay = 0.1}, 3.0}, Case{"rmsprop_momentum", RmsProp{.momentum = 0.9}},
                      Case{"adagrad", Adagrad{.weight_decay = 0.1}, 3.0},
                      Case{"adafactor", Adafactor{.weight_decay = 0.1}, 3.0},
                      Case{"adafactor_clip", Adafactor{.beta2_decay = -0.5, .update_clip = 1.1}}),
    [](const auto& info) { return info.param.name; });

TEST(Optimizer, RefusesValuesOutOfRange) {
  TwoParameters p;
  for (const OptimizerOptions& bad : std::vector<OptimizerOptions>{AdamW{.lr = -1},
                                                                   AdamW{.lr = 1e39},
                                                                   AdamW{.eps = 1e-50},
                                                                   AdamW{.eps = 1e39},
                                                                   Sgd{.weight_decay = 1e39},
                                                                   AdamW{.beta1 = 1.0},
                                                                   AdamW{.beta2 = -0.1},
                                                                   AdamW{.eps = 0.0},
                                                                   AdamW{.weight_decay = -1},
                                                                   Sgd{.lr = -1},
                                                                   Sgd{.momentum = 1.0},
                                                                   Sgd{.momentum = 0.0, .nesterov = true},
                                                                   Lars{.trust = 0.0},
                                                                   Lars{.eps = 0.0},
                                                                   Lars{.momentum = 0.0, .nesterov = true},
                                                                   Lars{.trust_limit = -1},
                                                                   Lamb{.beta1 = 1.0},
                                                                   Lamb{.beta2 = 1.0},
                                                                   Lamb{.eps = 0.0},
                                                                   Lamb{.trust_limit = -1},
                                                                   Lion{.beta1 = 1.0},
                                                                   Lion{.beta2 = -0.1},
                                                                   Lion{.weight_decay = -1},
                                                                   RmsProp{.alpha = 1.0},
                                                                   RmsProp{.eps = 0.0},
                                                                   RmsProp{.momentum = 1.0},
                                                                   Adagrad{.eps = 0.0},
                                                                   Adafactor{.beta2_decay = 0.1},
                                                                   Adafactor{.eps = 0.0},
                                                                   Adafactor{.min_rms = -1},
                                                                   Adafactor{.update_clip = 0.9},
                                                                   Muon{.lr = 0.0},
                                                                   Muon{.momentum = 1.0},
                                                                   Muon{.momentum = 0.0},
                                                                   Muon{.ns_steps = 0},
                                                                   Muon{.ns_steps = 100},
                                                                   Muon{.ns_eps = 0.0},
                                                                   Muon{.adam_lr = -1},
                                                                   Muon{.beta2 = 1.0},
                                                                   Muon{.eps = 0.0},
                                                                   Adagrad{.lr = -1}}) {
    EXPECT_THROW(make_optimizer(p.flat, bad, {{.names = "*matrix", .muon = true}}), InputError);
  }
}

TEST(Clip, NormCountsEveryTrainedElementOnce) {
  TwoParameters p;
  p.flat.flat(0).gradients.fill_(2.0);  // including the padding, which must not count
  const at::Tensor words = exact_sums(1, at::kCPU);
  add_squares(p.flat, words[0]);
  EXPECT_EQ(sums_in(words).front().value(), 88.0 * 4.0);
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
  LearningRate linear = warm, constant = warm, drops = warm, gradual = warm;
  gradual.warmup_share = 0.25;
  linear.decay = Decay::linear;
  constant.decay = Decay::constant;
  drops.decay = Decay::step;
  drops.decay_every = 3;
  drops.decay_factor = 0.5;
  for (const Row& row : std::vector<Row>{{warm, 0, 0.5},
                                         {warm, 3, 2.0},
                                         {gradual, 0, 0.875},
                                         {gradual, 1, 1.25},
                                         {gradual, 3, 2.0},
                                         {gradual, 8, 1.1},
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

TEST(LearningRate, IsTakenToAnotherBatch) {
  EXPECT_DOUBLE_EQ(rate_factor(RateScaling::none, 2048, 256), 1.0);
  EXPECT_DOUBLE_EQ(rate_factor(RateScaling::linear, 2048, 256), 8.0);
  EXPECT_DOUBLE_EQ(rate_factor(RateScaling::linear, 64, 256), 0.25);
  EXPECT_DOUBLE_EQ(rate_factor(RateScaling::sqrt, 2304, 256), 3.0);
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
