// OptimizerRecipe: the section [optimizer] of a recipe. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/optim/parameter_rule.h"
#include "weft/recipe/run_length.h"

namespace weft {

/// The section [optimizer].
struct OptimizerRecipe {
  std::string name = "adamw";        ///< one of optimizer_names()
  double lr = 3e-4;                  ///< peak learning rate; for batch.reference where that is set
  std::string scale_lr = "none";     ///< how lr is scaled to batch.global: "none" | "linear" | "sqrt"
  RunLength warmup;                  ///< linear warm-up
  std::string warmup_from = "zero";  ///< "zero" | "reference": the unscaled lr
  std::string decay = "constant";    ///< "constant" | "linear" | "cosine" | "step"
  double final_lr = 0.0;             ///< linear, cosine: share of lr at the last step
  RunLength decay_every;             ///< step decay: interval between drops
  double decay_factor = 0.1;         ///< step decay: factor of each drop
  double weight_decay =
      0.01;  ///< adamw, lion, muon, adafactor: decoupled; lamb: part of the update; others: added to gradients
  std::optional<double> beta1;           ///< adamw, lamb, lion, muon
  std::optional<double> beta2;           ///< the same
  std::optional<double> alpha;           ///< rmsprop
  std::optional<double> eps;             ///< all but sgd, lion
  std::optional<double> momentum;        ///< sgd, lars, rmsprop, muon
  std::optional<bool> nesterov;          ///< sgd, lars, muon
  std::optional<double> trust;           ///< lars: Lars::trust
  double trust_limit = 0.0;              ///< lars, lamb: largest ratio; 0: no limit
  std::string matrix_rate = "original";  ///< muon: Muon::adjust
  int64_t ns_steps = 5;                  ///< muon: Muon::ns_steps
  double ns_eps = 1e-7;                  ///< muon: Muon::ns_eps
  std::optional<double> adam_lr;         ///< muon: Muon::adam_lr
  std::optional<double> beta2_decay;     ///< adafactor: Adafactor::beta2_decay
  std::optional<double> min_rms;         ///< adafactor: Adafactor::min_rms
  std::optional<double> update_clip;     ///< adafactor: Adafactor::update_clip
  double clip = 0.0;                     ///< global gradient norm; 0: no clipping
  double ema = 0.0;                      ///< WeightAverage::decay; 0: no average of the weights
  bool ema_warmup = true;                ///< WeightAverage::warmup
  ParameterRules groups = {};            ///< [[optimizer.groups]]: settings for parameters selected by name

  bool operator==(const OptimizerRecipe&) const = default;  ///< compares every member
};

}  // namespace weft
