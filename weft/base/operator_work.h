// OperatorWork: the work of a block's passes, operator by operator: matrix products and attention with their shapes, and bytes
// through memory for everything else. Counted on the meta device (nn/cost/measure_cost.h) and priced by
// program/simulate/operator_time.h. Plain data; blocks that are alike share one table.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <vector>

namespace weft {

/// What an operator's time depends on.
enum class OperatorKind : uint8_t {
  product,    ///< a matrix product, or a convolution as one
  attention,  ///< fused attention
  memory,     ///< everything else: bytes through memory
};

/// How the operands of an operator of OperatorKind::product lie in memory, which CPUs' libraries care about.
enum class ProductForm : uint8_t {
  plain,        ///< [rows, inner] read by rows: outputs, gradients of inputs
  turned,       ///< [rows, inner] read by columns: gradients of weights
  convolution,  ///< an image's windows [pixels, channels x filter] by filters
  image,        ///< the gradient of its image: rows, columns and inner of the product that it amounts to
  filters,      ///< the gradient of its filters, likewise
};

/// What an operator of OperatorKind::memory does.
enum class MemoryClass : uint8_t {
  norm,        ///< layer norm, RMS norm, batch norm of a device; with the sum of what is added before
  activation,  ///< GELU, SwiGLU, ReLU
  rotary,      ///< rotary embedding
  dropout,     ///< dropout
  loss,        ///< cross entropy
  embedding,   ///< rows of a table
  other,       ///< copies, sums, what is computed again for backward
  channels,    ///< passes of batch norm of weft's CPU kernels (nn/images/channel_passes.h)
  pool,        ///< largest or mean value of an image's windows
};
inline constexpr int kNumMemoryClasses = 9;  ///< number of classes

/// A launched operator, and how often it is launched with the same shapes.
struct OperatorWork {
  OperatorKind kind = OperatorKind::memory;  ///< which of the members below hold
  MemoryClass of = MemoryClass::other;       ///< memory: what it does
  bool is_backward = false;                  ///< attention, norm, activation, loss: its gradient
  bool is_causal = false;                    ///< attention: without the masked half
  bool adds = false;                         ///< product: adds to its output, which it reads
  int element_bytes = 4;                     ///< of the inputs
  ProductForm form = ProductForm::plain;     ///< product: of its operands
  int window = 1;                            ///< convolution: positions of a filter
  int64_t batch = 1;                         ///< products of a batch; samples of an attention
  int64_t rows = 0, columns = 0, inner = 0;  ///< [rows, inner] x [inner, columns]; attention: queries, keys, head width
  int64_t heads = 0, kv_heads = 0;           ///< attention
  int64_t bytes = 0;                         ///< memory: read and written
  int64_t elements = 0;                      ///< memory: of its largest tensor
  int count = 1;                             ///< number of launches

  /// Floating-point operations of one launch, 2 per multiply-add, without the masked half of a causal attention.
  double flops() const;
  auto operator<=>(const OperatorWork&) const = default;  ///< compares member by member
};

/// Operators of a pass, each combination of shapes once, in the order of their first launch.
using PassOperators = std::vector<OperatorWork>;

/// Adds a launch: counts it where the same one is there.
void add_operator(PassOperators& operators, const OperatorWork& work);

/// Passes of a block on a micro-batch.
enum class BlockPass : uint8_t {
  forward,
  backward,         ///< writes the parameters' gradients
  adding_backward,  ///< adds to those of an earlier micro-batch
  input,            ///< the input-gradient part of backward, if it splits
  weight,           ///< the weight-gradient part, which writes
  adding_weight,    ///< one that adds
};
inline constexpr int kNumPasses = 6;  ///< number of passes

/// Operators of a block's passes.
struct BlockOperators {
  std::array<PassOperators, kNumPasses> passes = {};  ///< by BlockPass

  PassOperators& of(BlockPass pass) { return passes[static_cast<size_t>(pass)]; }              ///< operators of a pass
  const PassOperators& of(BlockPass pass) const { return passes[static_cast<size_t>(pass)]; }  ///< operators of a pass
  bool operator==(const BlockOperators&) const = default;                                      ///< compares pass by pass
};

/// Tables are shared by the blocks that are alike; null: not counted.
using SharedOperators = std::shared_ptr<const BlockOperators>;

}  // namespace weft
