// Operation: an operator of an exported graph, ready to be called: its schema's arguments as operands, its values as slots.
//
// A heavy header (the dispatcher's), for sources of this folder alone.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/exported/graph.h"
#include "weft/exported/operator_rule.h"
#include "weft/exported/split_call.h"
#include "weft/exported/type_rule.h"
#include "weft/nn/block.h"

namespace weft {

/// An argument of a call.
struct Operand {
  enum class Kind {
    constant,          ///< `constant`
    value,             ///< the slot
    wrapped,           ///< the slot's number, as a tensor that does not decide the result's type
    tensors,           ///< a list of tensors in slots
    optional_tensors,  ///< the same, where slot -1 is none
    integers,          ///< a list of integers: of slots, or, at slot -1, `integers`
    device,            ///< the device that the block runs on
    working_type,      ///< a narrow type in the file: the type of the block's weights
    training,          ///< true in training
    training_share,    ///< the constant in training, else 0
  };
  Kind kind = Kind::constant;
  c10::IValue constant = {};
  std::vector<int> slots = {};
  std::vector<int64_t> integers = {};
};

/// A call.
struct Operation {
  enum class Kind {
    call,         ///< through the dispatcher
    dropout,      ///< keyed by sample and element (nn/layers/dropout.h)
    sample_mask,  ///< ones and zeros keyed by sample, as stochastic depth draws them
    samples,      ///< factor x samples of the micro-batch
    arithmetic,   ///< on numbers, in Python's operators
  };
  Kind kind = Kind::call;
  std::string name = {};    ///< the node's
  std::string target = {};  ///< the node's
  std::optional<c10::OperatorHandle> handle = {};
  std::vector<Operand> operands = {};
  std::vector<int> outputs = {};  ///< slots; -1: dropped
  bool returns_list = false;      ///< the outputs are elements of one list
  bool no_grad = false;           ///< nothing it makes has a gradient
  bool clears = false;            ///< what it makes becomes zeros
  CallCheck check = nullptr;      ///< of its arguments; null: none
  TypeRule types = TypeRule::promoted;
  int64_t factor = 1;                   ///< samples: see there; dropout, sample_mask: elements of `dim` per sample
  int64_t dim = 0;                      ///< dropout, sample_mask: the dimension of samples
  double evaluated = 1.0;               ///< sample_mask: its elements in evaluation
  std::optional<SplitCall> split = {};  ///< where ranks share layers: what that changes
  std::vector<int> frees = {};          ///< slots that nothing reads after it
};

/// Equal for operations that do the same with tensors of the same shapes.
std::string operations_text(const std::vector<Operation>& operations);

/// What all calls of one forward share.
struct OperationScope {
  const Context& context;
  at::Device device;
  at::ScalarType working_type;
  int64_t samples;                            ///< of the micro-batch
  const std::string& path;                    ///< the file, for errors
  const std::vector<Parameter*>& parameters;  ///< by slot; null: none
  std::map<int, at::Tensor>& copies;          ///< by slot: whole values beside parts (run_split.h)
};

/// Runs the operations in order. `slots` holds the values so far, and takes the results. Throws Error, which names the
/// operator, for one that LibTorch refuses.
void run_operations(const std::vector<Operation>& operations, std::vector<c10::IValue>& slots, const OperationScope& scope);

/// Result of Python's operator on numbers: "mul", "floordiv", ... Throws InputError for other operators and operands.
c10::IValue arithmetic(const std::string& target, const std::vector<c10::IValue>& operands);
/// Returns whether arithmetic() knows the operator.
bool is_arithmetic(const std::string& target);

}  // namespace weft
