#include "weft/optim/optimizer_options.h"

#include <fmt/format.h>

#include <limits>

#include "weft/base/error.h"
#include "weft/optim/element_wise_update.h"

namespace weft {

namespace {

void require(bool good, const char* key, double value, const char* rule) {
  if (!good) throw InputError(fmt::format("optimizer.{} is {}; it must be {}", key, value, rule));
}

using Float = std::numeric_limits<float>;  // the type of updates

void require_not_negative(const char* key, double value) {
  require(value >= 0, key, value, "at least 0");
  require(value <= Float::max(), key, value, "at most 3.4e38, float32's largest");
}
void require_positive(const char* key, double value) {
  require(value > 0, key, value, "above 0");
  require(value >= Float::min(), key, value, "at least 1.2e-38, as less is 0 in float32");
  require(value <= Float::max(), key, value, "at most 3.4e38, float32's largest");
}
void require_share(const char* key, double value) { require(value >= 0 && value < 1, key, value, "in [0, 1)"); }

/// Checks the numbers in these options.
template <class Options>
void check(const Options& o) {
  require_not_negative("lr", o.lr);
  require_not_negative("weight_decay", o.weight_decay);
  if constexpr (requires { o.beta1; }) {
    require_share("beta1", o.beta1);
    require_share("beta2", o.beta2);
  }
  if constexpr (requires { o.alpha; }) require_share("alpha", o.alpha);
  if constexpr (requires { o.momentum; }) require_share("momentum", o.momentum);
  if constexpr (requires { o.eps; }) require_positive("eps", o.eps);
  if constexpr (requires { o.trust; }) require_positive("trust", o.trust);
  if constexpr (requires { o.trust_limit; }) require_not_negative("trust_limit", o.trust_limit);
  if constexpr (requires { o.beta2_decay; }) {
    require(o.beta2_decay <= 0, "beta2_decay", o.beta2_decay, "at most 0");
    require_not_negative("min_rms", o.min_rms);
    require(o.update_clip >= 1, "update_clip", o.update_clip, "at least 1");
  }
  if constexpr (requires { o.ns_steps; }) {
    require_positive("lr", o.lr);
    require(o.ns_steps >= 1 && o.ns_steps <= 99, "ns_steps", o.ns_steps, "in [1, 99]");
    require_positive("ns_eps", o.ns_eps);
    require_not_negative("adam_lr", o.adam_lr);
  }
  if constexpr (requires { o.update; }) check_update(o.update);
  if constexpr (requires { o.nesterov; }) {
    if (o.nesterov && o.momentum == 0) throw InputError("optimizer.nesterov needs a momentum above 0");
  }
}

std::string text(const AdamW& o) { return fmt::format("AdamW, betas {} and {}, eps {}", o.beta1, o.beta2, o.eps); }
std::string text(const Sgd& o) { return fmt::format("SGD, momentum {}{}", o.momentum, o.nesterov ? " (Nesterov)" : ""); }
std::string text(const Lars& o) {
  return fmt::format("LARS, momentum {}{}, trust {}, eps {}, limit {}", o.momentum, o.nesterov ? " (Nesterov)" : "", o.trust,
                     o.eps, o.trust_limit);
}
std::string text(const Lamb& o) {
  return fmt::format("LAMB, betas {} and {}, eps {}, limit {}", o.beta1, o.beta2, o.eps, o.trust_limit);
}
std::string text(const Lion& o) { return fmt::format("Lion, betas {} and {}", o.beta1, o.beta2); }
std::string text(const RmsProp& o) { return fmt::format("RMSprop, alpha {}, eps {}, momentum {}", o.alpha, o.eps, o.momentum); }
std::string text(const Adagrad& o) { return fmt::format("Adagrad, eps {}", o.eps); }
std::string text(const Muon& o) {
  return fmt::format(
      "Muon, momentum {}{}, {} Newton-Schulz steps, eps {}, rate {}; others by AdamW, rate {}, betas {} and {}, eps {}",
      o.momentum, o.nesterov ? " (Nesterov)" : "", o.ns_steps, o.ns_eps, kMatrixRates.of(o.adjust), o.adam_lr, o.beta1, o.beta2,
      o.eps);
}

std::string text(const Adafactor& o) {
  return fmt::format("Adafactor, beta2_decay {}, eps {}, smallest rms {}, clip of updates {}", o.beta2_decay, o.eps, o.min_rms,
                     o.update_clip);
}

std::string text(const CustomOptimizer& o) {
  check_update(o.update);
  const std::string numbers = o.update->numbers();
  return numbers.empty() ? o.update->name() : fmt::format("{}, {}", o.update->name(), numbers);
}

using Names = std::vector<std::string>;
Names names(const AdamW& /*o*/) { return {"exp_avg", "exp_avg_sq"}; }
Names names(const Sgd& o) { return o.momentum > 0.0 ? Names{"momentum_buffer"} : Names{}; }
Names names(const Lars& o) { return o.momentum > 0.0 ? Names{"momentum_buffer"} : Names{}; }
Names names(const Lamb& /*o*/) { return {"exp_avg", "exp_avg_sq"}; }
Names names(const Lion& /*o*/) { return {"exp_avg"}; }
Names names(const RmsProp& o) { return o.momentum > 0.0 ? Names{"square_avg", "momentum_buffer"} : Names{"square_avg"}; }
Names names(const Adagrad& /*o*/) { return {"sum"}; }
Names names(const Muon& /*o*/) { return {"momentum_buffer", "exp_avg_sq"}; }
Names names(const Adafactor& /*o*/) { return {"variance"}; }
Names names(const CustomOptimizer& o) {
  check_update(o.update);
  return o.update->state_names();
}

}  // namespace

void check_optimizer(const OptimizerOptions& options) {
  std::visit([](const auto& o) { check(o); }, options);
}

std::string optimizer_text(const OptimizerOptions& options) {
  return std::visit([](const auto& o) { return fmt::format("{}, weight decay {}", text(o), o.weight_decay); }, options);
}

std::vector<std::string> state_names(const OptimizerOptions& options) {
  return std::visit([](const auto& o) { return names(o); }, options);
}

bool has_ages(const OptimizerOptions& options) {
  return std::holds_alternative<AdamW>(options) || std::holds_alternative<Lamb>(options) ||
         std::holds_alternative<Muon>(options) || std::holds_alternative<Adafactor>(options) ||
         std::holds_alternative<CustomOptimizer>(options);
}

int num_states(const OptimizerOptions& options) { return static_cast<int>(state_names(options).size()); }

bool needs_tensor_norms(const OptimizerOptions& options) {
  return std::holds_alternative<Lars>(options) || std::holds_alternative<Lamb>(options) ||
         std::holds_alternative<Adafactor>(options);
}

bool takes_gate(const OptimizerOptions& options) {
  const auto* custom = std::get_if<CustomOptimizer>(&options);
  if (custom != nullptr) check_update(custom->update);
  return custom == nullptr || custom->update->takes_gate();
}

bool squares_gradients(const OptimizerOptions& options) {
  return !std::holds_alternative<Sgd>(options) && !std::holds_alternative<Lars>(options) &&
         !std::holds_alternative<Lion>(options);
}

bool needs_whole_tensors(const OptimizerOptions& options) {
  return std::holds_alternative<Muon>(options) || std::holds_alternative<Adafactor>(options);
}

}  // namespace weft
