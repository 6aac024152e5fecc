// Calls of an exported graph on parts of layers that the ranks of tp share.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace c10 {
struct IValue;
}

namespace weft {

struct Operation;
struct OperationScope;

/// Changes the arguments of a call beside parts: sizes to the part's, whole tensors to copies whose gradients are summed.
/// Collective over tp in backward.
void take_parts(const Operation& operation, std::vector<c10::IValue>& arguments, const OperationScope& scope);

/// The output of a split layer, for arguments after take_parts(). Collective over tp.
at::Tensor split_layer(const Operation& operation, const std::vector<c10::IValue>& arguments, const OperationScope& scope);

/// Dropout of this rank's part of x, [samples x factor, ...]: the elements of the whole that are dropped are the same on any
/// number of ranks.
at::Tensor dropout_of_part(const Operation& operation, const at::Tensor& x, double p, const OperationScope& scope);

}  // namespace weft
