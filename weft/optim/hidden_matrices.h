// Hidden matrices: the parameters that Muon orthogonalises, and the cost of a step.
//
// They are the trained tensors of two dimensions or more that take weight decay, except embeddings and those of the model's
// last block, its head. These tensors map activations to activations. A convolution's kernel [out, in, h, w] counts as the
// matrix [out, in h w]. Rules by name override this (ParameterRule::muon).
#pragma once

#include <cstdint>
#include <vector>

#include "weft/nn/flat/flat_model.h"
#include "weft/nn/model.h"
#include "weft/optim/parameter_rule.h"

namespace weft {

/// Marks the entries of FlatModel::params() that Muon orthogonalises. Throws InputError if there are no hidden matrices, or if
/// a rule selects a parameter that is not a matrix.
std::vector<bool> hidden_matrices(const FlatModel& model, const ParameterRules& rules);

/// One block's parameters, as Muon sees them.
struct MatrixCounts {
  int64_t matrices = 0;      ///< parameters that it orthogonalises
  int64_t others = 0;        ///< elements of trained parameters that AdamW updates
  int64_t largest_side = 0;  ///< shorter side of the matrix that takes the most memory
  int64_t largest = 0;       ///< elements of that matrix
};

/// Counts by block of an unbound model. Throws like hidden_matrices().
std::vector<MatrixCounts> count_matrices(const Model& model, const ParameterRules& rules);

}  // namespace weft
