#include "weft/nn/tensor_parallel/apply_splits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/math.h"
#include "weft/nn/activation_form.h"

namespace weft {

namespace {

constexpr int64_t kMostNumbers = 64;  ///< maximum rank numbers listed in an error

std::string_view first_part(std::string_view name) { return name.substr(0, name.find('.')); }

std::string_view rest(std::string_view name) {
  const size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
}

/// Matches part by part between dots.
bool matches(std::string_view pattern, std::string_view name) {
  for (; !pattern.empty() && !name.empty(); pattern = rest(pattern), name = rest(name)) {
    if (first_part(pattern) != "*" && first_part(pattern) != first_part(name)) return false;
  }
  return pattern.empty() && name.empty();
}

/// A parameter under its full name.
struct Named {
  std::string name;
  Parameter* parameter;
};

std::vector<Named> parameters_of(const Model& model) {
  std::vector<Named> result;
  for (const NamedBlock& named : model.blocks) {
    for (const ParamSpec& spec : named.block->parameters()) {
      result.push_back({named.prefix.empty() ? spec.name : named.prefix + "." + spec.name, spec.parameter});
    }
  }
  return result;
}

/// Dim of the weight that the rule divides.
int64_t dim_of(const SplitRule& rule) { return (rule.kind == SplitKind::rows) != rule.is_transposed ? 1 : 0; }

class Splitter {
 public:
  Splitter(const Model& model, int ranks, int rank, int fixed_parts)
      : model_(model), parameters_(parameters_of(model)), ranks_(ranks), rank_(rank), fixed_parts_(fixed_parts) {}

  void run() {
    for (const SplitRule& rule : model_.splits) apply(rule);
    check_forms();
  }

 private:
  [[noreturn]] void fail(const std::string& layer, const std::string& text) const {
    throw InputError(fmt::format("layout: model '{}', layer {}: {}", model_.name, layer, text));
  }

  void apply(const SplitRule& rule) {
    bool found = false;
    for (const Named& weight : parameters_) {
      if (!matches(rule.layer + ".weight", weight.name)) continue;
      found = true;
      apply(rule, weight);
    }
    if (found) return;
    for (const Named& other : parameters_) {
      if (!matches(rule.layer + ".*", other.name)) continue;
      fail(rule.layer, fmt::format("its split table has a rule for it, but it has no weight (there is {}), so it cannot be "
                                   "split; leave it whole",
                                   other.name));
    }
    fail(rule.layer, "its split table has a rule for it, but no layer of that name has a weight");
  }

  /// Checks that each layer gets the form it takes: whole activations, or the parts of preceding layers.
  void check_forms() const {
    ActivationForm form;
    for (const NamedBlock& named : model_.blocks) {
      auto* block = dynamic_cast<ChecksSplits*>(named.block.get());
      form = block ? block->check_splits(form) : ActivationForm();
    }
    const auto takes_parts = [](const auto& function) { return !function || function.takes_parts(); };
    if (form.is_whole() || (model_.loss.takes_parts() && takes_parts(model_.evaluation_loss) && takes_parts(model_.hits) &&
                            takes_parts(model_.top5)))
      return;
    fail(form.layer,
         "each rank has a part of its output, but the model's loss and hits need the whole; join it "
         "(SplitRule::joined), or use vocabulary_cross_entropy() and vocabulary_hits()");
  }

  void apply(const SplitRule& rule, const Named& weight) {
    const std::string layer = weight.name.substr(0, weight.name.size() - std::string_view(".weight").size());
    const int64_t dim = dim_of(rule);
    if (weight.parameter->value.dim() < 2) {
      fail(layer, fmt::format("its weight has {} dim, like a norm's, and must stay whole; remove its rule",
                              weight.parameter->value.dim()));
    }
    if (weight.parameter->value.dim() > 2 && fixed_parts_ > 0)
      fail(layer, "run.reproducible_tp divides only linear layers and embeddings, not convolutions; set it to 0");
    if (weight.parameter->split) fail(layer, "two rules of the split table match it");
    Split split = split_of(rule, layer, dim, weight.parameter->value.size(dim));
    weight.parameter->split = split;
    if (rule.kind == SplitKind::rows) return;
    split.dim = 0;
    for (const Named& other : parameters_) {
      if (other.name == layer + ".bias") other.parameter->split = split;
    }
  }

  Split split_of(const SplitRule& rule, const std::string& layer, int64_t dim, int64_t size) const {
    check_rule(rule, layer);
    Split split{.dim = dim,
                .segments = rule.segments,
                .parts = ranks_,
                .part = rank_,
                .pieces = fixed_parts_ / ranks_,
                .joined = rule.joined,
                .layer = layer};
    if (split.segments.empty()) split.segments = {size};
    const int64_t sum = std::accumulate(split.segments.begin(), split.segments.end(), int64_t{0});
    if (sum != size) fail(layer, fmt::format("its rule has segments of {} positions in all; dim {} has {}", sum, dim, size));
    if (rule.joined && split.segments.size() > 1)
      fail(layer, "its rule joins the outputs of several segments; split it as one");
    if (rule.kind != SplitKind::vocabulary) check_divisible(rule, layer, split.segments);
    return split;
  }

  void check_rule(const SplitRule& rule, const std::string& layer) const {
    if (rule.unit < 1) fail(layer, fmt::format("its rule keeps {} positions together; must be at least 1", rule.unit));
    for (const int64_t segment : rule.segments) {
      if (segment < 1) fail(layer, fmt::format("its rule has a segment of {} positions; must be at least 1", segment));
    }
    if (rule.kind == SplitKind::vocabulary && (rule.unit != 1 || rule.segments.size() > 1))
      fail(layer, "its rule pads a vocabulary, which has neither units nor segments; split it by columns");
    if (rule.kind == SplitKind::rows && rule.joined)
      fail(layer, "its rule joins the output of a split by rows, which is a whole sum already; leave out joined");
  }

  void check_divisible(const SplitRule& rule, const std::string& layer, const std::vector<int64_t>& segments) const {
    for (const int64_t segment : segments) {
      if (segment % rule.unit != 0) fail(layer, fmt::format("segments of {} are not a multiple of {}", segment, rule.unit));
      if (segment / rule.unit % std::max(ranks_, fixed_parts_) == 0) continue;
      const std::string unit = !rule.unit_name.empty() ? rule.unit_name : rule.kind == SplitKind::rows ? "inputs" : "outputs";
      const bool fixed = fixed_parts_ > 0;
      fail(layer, fmt::format("{} = {} does not divide its {} {}; {} may be {}", fixed ? "run.reproducible_tp" : "layout.tp",
                              fixed ? fixed_parts_ : ranks_, segment / rule.unit, unit, fixed ? "it" : "tp",
                              fmt::join(valid_rank_counts(), ", ")));
    }
  }

  /// Numbers of ranks valid for every rule.
  std::vector<int64_t> valid_rank_counts() const {
    int64_t all = 0;
    for (const SplitRule& rule : model_.splits) {
      for (const Named& weight : parameters_) {
        if (rule.kind == SplitKind::vocabulary || !matches(rule.layer + ".weight", weight.name)) continue;
        const int64_t dim = dim_of(rule);
        if (weight.parameter->value.dim() <= dim) continue;
        for (const int64_t segment : rule.segments) all = std::gcd(all, segment / std::max<int64_t>(1, rule.unit));
        if (rule.segments.empty()) {
          all = std::gcd(all, weight.parameter->value.size(dim) / std::max<int64_t>(1, rule.unit));
        }
      }
    }
    std::vector<int64_t> numbers;
    for (int64_t n = 1; n <= std::min<int64_t>(all, kMostNumbers); ++n) {
      if (all % n == 0 && (fixed_parts_ == 0 || is_power_of_two(n))) numbers.push_back(n);
    }
    return numbers;
  }

  const Model& model_;
  std::vector<Named> parameters_;
  int ranks_;
  int rank_;
  int fixed_parts_;
};

}  // namespace

void split_layers(Model& model, int ranks, int rank, int fixed_parts) {
  if (ranks > 1 || fixed_parts > 0) Splitter(model, ranks, rank, fixed_parts).run();
}

}  // namespace weft
