#include "weft/optim/hidden_matrices.h"

#include <c10/util/accumulate.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "weft/base/error.h"
#include "weft/base/printable.h"

namespace weft {

namespace {

/// Properties of a parameter that decide.
struct Candidate {
  std::string name;
  std::vector<int64_t> shape;
  int block = 0;
  bool trained = true;
  bool decays = true;
  bool embedding = false;
};

bool is_matrix(const Candidate& c, const ParameterRules& rules, int last_block) {
  if (!c.trained) return false;
  const ParameterRule* rule = rule_of(rules, c.name);
  if (!rule || !rule->muon) return c.shape.size() >= 2 && c.decays && !c.embedding && c.block != last_block;
  if (*rule->muon && c.shape.size() < 2) {
    throw InputError(
        fmt::format("parameters '{}': muon = true, but '{}' has {} dimension{}, and Muon updates only matrices; leave it out",
                    shortened(rule->names), c.name, c.shape.size(), c.shape.size() == 1 ? "" : "s"));
  }
  return *rule->muon;
}

std::vector<bool> find(const std::vector<Candidate>& candidates, const ParameterRules& rules, const Model& model) {
  std::vector<bool> found;
  found.reserve(candidates.size());
  for (const Candidate& c : candidates) found.push_back(is_matrix(c, rules, model.num_blocks() - 1));
  if (std::find(found.begin(), found.end(), true) == found.end()) {
    throw InputError(
        fmt::format("optimizer muon: model '{}' has no hidden matrix outside embeddings and its last block, '{}'; select some "
                    "with muon = true (optimizer.groups), or use adamw",
                    model.name, model.blocks.back().name));
  }
  return found;
}

}  // namespace

std::vector<bool> hidden_matrices(const FlatModel& model, const ParameterRules& rules) {
  std::vector<Candidate> candidates;
  candidates.reserve(model.params().size());
  for (const Param& p : model.params()) {
    candidates.push_back({p.name, p.shape, p.block, is_trained(p.group), p.group == ParamGroup::decay, p.embedding});
  }
  return find(candidates, rules, model.model());
}

std::vector<MatrixCounts> count_matrices(const Model& model, const ParameterRules& rules) {
  std::vector<Candidate> candidates;
  for (int b = 0; b < model.num_blocks(); ++b) {
    const NamedBlock& named = model.blocks[b];
    const std::string prefix = named.prefix.empty() ? "" : named.prefix + ".";
    for (const ParamSpec& spec : named.block->parameters()) {
      candidates.push_back({prefix + spec.name, spec.parameter->value.sizes().vec(), b, !spec.statistic && !spec.frozen,
                            spec.decay, spec.embedding});
    }
  }
  const std::vector<bool> matrices = find(candidates, rules, model);
  std::vector<MatrixCounts> counts(model.blocks.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& c = candidates[i];
    MatrixCounts& of_block = counts[c.block];
    const int64_t numel = c10::multiply_integers(c.shape);
    if (!matrices[i]) {
      of_block.others += c.trained ? numel : 0;
      continue;
    }
    ++of_block.matrices;
    if (numel <= of_block.largest) continue;
    of_block.largest = numel;
    of_block.largest_side = std::min(c.shape.front(), numel / c.shape.front());
  }
  return counts;
}

}  // namespace weft
