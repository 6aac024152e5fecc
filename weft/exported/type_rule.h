// TypeRule: what an operator gets when its arguments are partly float32 and partly of the weights' type.
//
// In bf16 and fp16 parameters are narrow, while buffers, constants, tensors that the forward makes and float32 conversions stay
// float32, as under PyTorch's autocast. Most operators promote to float32 by themselves; this is for those that do not.
#pragma once

#include <string>
#include <vector>

namespace c10 {
struct IValue;
}

namespace weft {

/// By operator.
enum class TypeRule {
  promoted,  ///< it promotes, or refuses: arguments as they are
  narrow,    ///< products, convolutions, attention, recurrent layers: float32 arguments take the narrow type
  wide,      ///< norms, sampling: narrow arguments become float32
  float32,   ///< FFTs, distances: narrow arguments always become float32
  of_norm,   ///< BatchNorm: its weight and bias become float32 where its statistics or its input are
  of_self,   ///< writes into its first argument: the others take its type
};

/// The rule of an operator, "aten::linear".
TypeRule type_rule(const std::string& name);

/// Converts a call's arguments in place. Those of one floating type stay as they are.
void apply_type_rule(TypeRule rule, std::vector<c10::IValue>& arguments);

}  // namespace weft
