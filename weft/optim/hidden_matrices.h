// Hidden matrices: the parameters that Muon orthogonalises, and what a step then takes.
//
// Those are the trained tensors of two dimensions or more that take weight decay, but for embeddings and for the model's last
// block, its head: what maps activations to activations. A convolution's kernel [out, in, h, w] counts as the matrix [out, in h
// w]. Rules by name say otherwise (ParameterRule::muon).
#pragma once

#include <cstdint>
#include <vector>

#include "weft/nn/flat/flat_model.h"
#include "weft/nn/model.h"
#include "weft/optim/parameter_rule.h"

namespace weft {

/// By FlatModel::params(): whether Muon orthogonalises it. Throws InputError where it finds none, or for a rule that says so of
/// one that is no matrix.
std::vector<bool> hidden_matrices(const FlatModel& model, const ParameterRules& rules);

/// What one block's parameters are to Muon.
struct MatrixCounts {
  int64_t matrices = 0;      ///< those that it orthogonalises
  int64_t others = 0;        ///< elements of trained parameters that take AdamW
  int64_t largest_side = 0;  ///< of the matrix that takes most memory: the shorter side
  int64_t largest = 0;       ///< its elements
};

/// By block of a model that is not bound yet. Throws as hidden_matrices() does.
std::vector<MatrixCounts> count_matrices(const Model& model, const ParameterRules& rules);

}  // namespace weft
