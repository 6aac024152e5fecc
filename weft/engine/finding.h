// Finding: the first value of a step that was not finite, and what made it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/error.h"

namespace weft {

/// The values of a tensor in short.
struct TensorRange {
  std::string name = {};  ///< of the operator's argument, or of the parameter; empty: none
  std::string type = {};  ///< "float32"
  std::vector<int64_t> shape = {};
  double least = 0.0, greatest = 0.0;  ///< of the finite values; 0 if there are none
  int64_t not_finite = 0;              ///< number of values that are NaN or infinite
  bool has_nan = false;
};

/// Reads a floating-point tensor whose memory is there; waits for its device.
TensorRange range_of(const at::Tensor& tensor, std::string name = {});
/// True for a floating-point tensor with values in memory: dense, not on the meta device, not released.
bool has_values(const at::Tensor& tensor);
/// "[8, 64] float32 (least -0.12, greatest 3.1)"
std::string range_text(const TensorRange& range);

/// What was not finite first, on one rank or on all.
struct Finding {
  enum class Kind {
    operation,  ///< an operator whose inputs were finite
    unseen,     ///< something that is no operator of LibTorch's, after `operation`
    data,       ///< a sample of the data
    weight,     ///< a weight, before the step
    received    ///< came from another rank
  };
  Kind kind = Kind::operation;
  std::string pass = {};  ///< "forward", "recompute", "loss", "backward", "update"
  std::string block = {};
  int block_index = 0;
  int64_t micro_batch = -1;              ///< in the step, over all ranks; -1: none
  std::string operation = {};            ///< "aten::log", "aten::div in SqrtBackward0", "weft::norm"
  std::string made = {};                 ///< "NaN", "inf", "-inf"
  std::vector<TensorRange> inputs = {};  ///< of the operation; or the value itself
  int64_t row = -1;                      ///< sample in the micro-batch; -1: unknown
  int64_t sample = -1;                   ///< its position in the run, from 0; -1: unknown
  std::string sample_name = {};          ///< "sample 77123 of the data"; empty: unknown
  std::vector<int64_t> element = {};     ///< index of the first such value in what was made
  bool is_owner = true;                  ///< of a weight: this rank updates the part that is not finite
  int rank = 0;                          ///< in the world
  std::string place = {};                ///< of the rank in the mesh: "dp 1 of 2"; empty: only one rank
};

/// True if `a` came before `b`, of the findings of two ranks: by micro-batch and pass, what was made before what was received.
bool came_before(const Finding& a, const Finding& b);
/// "rank 2 (dp 1 of 2), block layers.4, forward of micro-batch 3: aten::log of [8, 64] float32 (...) made NaN, in sample ..."
std::string finding_text(const Finding& finding);
/// As JSON, and back.
std::string finding_json(const Finding& finding);
Finding parse_finding(const std::string& json);

/// Thrown by a step that was repeated with checks: what was wrong, with what was not finite first if that was found.
class BadStep : public NumericError {
 public:
  BadStep(int64_t step, const std::string& what, std::vector<Finding> findings, const std::string& more = {});
  int64_t step() const { return step_; }               ///< counted from 0
  const std::string& wrong() const { return wrong_; }  ///< without the finding
  const Finding* finding() const { return findings_.empty() ? nullptr : &findings_.front(); }
  const std::vector<Finding>& findings() const { return findings_; }  ///< of all ranks, the first one first

 private:
  int64_t step_;
  std::string wrong_;
  std::vector<Finding> findings_;
};

}  // namespace weft
