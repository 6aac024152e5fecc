#include <ATen/core/enum_tag.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "weft/checkpoint/weights/exported_file.h"
#include "weft/exported/bind_node.h"
#include "weft/exported/sample_mask.h"

namespace weft {
namespace {

/// Converts arguments to the types of one operator's schema.
class ArgumentBinder {
 public:
  ArgumentBinder(const ExportedGraph& graph, const ExportedNode& node, c10::function_ref<int(const std::string&)> slot_of)
      : graph_(graph), node_(node), slot_of_(slot_of) {}

  std::vector<Operand> bind(const c10::FunctionSchema& schema) {
    const auto& all = schema.arguments();
    const bool takes_tensors = std::any_of(
        all.begin(), all.end(), [](const c10::Argument& x) { return x.type()->kind() == c10::TypeKind::TensorType; });
    is_factory_ = !takes_tensors;
    std::vector<Operand> operands;
    size_t used = 0;
    for (const c10::Argument& argument : schema.arguments()) {
      const ExportedArgument* const given = argument_named(node_, argument.name());
      used += given != nullptr ? 1 : 0;
      operands.push_back(given == nullptr ? left_out(argument) : bind(argument, *given));
    }
    if (used != node_.inputs.size()) refuse_node(graph_, node_, "it is given arguments that it does not take; export it again");
    return operands;
  }

 private:
  using Given = ExportedArgument::Kind;
  using Kind = Operand::Kind;

  [[noreturn]] void refuse(const c10::Argument& argument, const std::string& text) const {
    refuse_node(graph_, node_, fmt::format("argument '{}': {}", argument.name(), text));
  }

  /// The default; for a factory, what that was when the model was exported.
  Operand left_out(const c10::Argument& argument) const {
    if (argument.name() == "dtype" && is_factory_ && makes_narrow()) return {.kind = Kind::working_type};
    if (argument.default_value()) return {.constant = *argument.default_value()};
    if (argument.type()->kind() == c10::TypeKind::OptionalType) return {};
    refuse(argument, "it is missing; export it again");
  }

  bool makes_narrow() const {
    const auto shape = graph_.shapes.find(node_.outputs.empty() ? "" : node_.outputs.front());
    return shape != graph_.shapes.end() && shape->second.type == graph_.narrow_type &&
           graph_.narrow_type != at::ScalarType::Undefined;
  }

  Operand bind(const c10::Argument& argument, const ExportedArgument& given) const {
    const bool is_optional = argument.type()->kind() == c10::TypeKind::OptionalType;
    if (given.kind == Given::none && is_optional) return {};
    const c10::TypePtr type = is_optional ? argument.type()->castRaw<c10::OptionalType>()->getElementType() : argument.type();
    switch (type->kind()) {
      case c10::TypeKind::TensorType:
        return tensor(argument, given);
      case c10::TypeKind::ListType:
        return list(argument, *type->castRaw<c10::ListType>(), given);
      case c10::TypeKind::IntType:
        return integer(argument, given);
      case c10::TypeKind::BoolType:
        return boolean(argument, given);
      case c10::TypeKind::FloatType:
        return number(argument, given);
      case c10::TypeKind::NumberType:
        return given.kind == Given::integer ? integer(argument, given) : number(argument, given);
      case c10::TypeKind::StringType:
        if (given.kind == Given::text) return {.constant = given.text};
        break;
      case c10::TypeKind::DeviceObjType:
        if (given.kind == Given::device) return {.kind = Kind::device};
        break;
      default:
        break;
    }
    refuse(argument, fmt::format("weft gives no value of type {}; export a forward without it", argument.type()->str()));
  }

  Operand value(const ExportedArgument& given, Kind kind = Kind::value) const {
    return {.kind = kind, .slots = {slot_of_(given.values.front())}};
  }

  bool is_tensor(const std::string& name) const { return graph_.shapes.count(name) > 0; }

  /// Numbers become tensors that do not decide the result's type.
  Operand tensor(const c10::Argument& argument, const ExportedArgument& given) const {
    if (given.kind == Given::value) return value(given, is_tensor(given.values.front()) ? Kind::value : Kind::wrapped);
    c10::Scalar number;
    if (given.kind == Given::integer)
      number = given.integers.front();
    else if (given.kind == Given::boolean)
      number = given.integers.front() != 0;
    else if (given.kind == Given::number)
      number = given.numbers.front();
    else
      refuse(argument, "it is no tensor; export it again");
    at::Tensor wrapped = at::scalar_tensor(number, at::TensorOptions(number.type()));
    wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
    return {.constant = wrapped};
  }

  /// Numbers that stand for types and formats are those of their enumerations: kernels look them up unchecked.
  Operand integer(const c10::Argument& argument, const ExportedArgument& given) const {
    const bool is_optional = argument.real_type()->kind() == c10::TypeKind::OptionalType;
    const c10::TypePtr type =
        is_optional ? argument.real_type()->castRaw<c10::OptionalType>()->getElementType() : argument.real_type();
    constexpr int64_t kStrided = 7;
    switch (type->kind()) {
      case c10::TypeKind::ScalarTypeType:
        if (given.kind == Given::scalar_type) return scalar_type(argument, given.integers.front());
        break;
      case c10::TypeKind::MemoryFormatType:
        if (given.kind == Given::memory_format) return memory_format(argument, given.integers.front());
        break;
      case c10::TypeKind::LayoutType:
        if (given.kind == Given::layout && given.integers.front() == kStrided)
          return {.constant = static_cast<int64_t>(at::kStrided)};
        if (given.kind == Given::layout) refuse(argument, "only dense tensors are trained");
        break;
      default:
        if (given.kind == Given::value && !is_tensor(given.values.front())) return value(given);
        if (given.kind == Given::integer) return {.constant = given.integers.front()};
    }
    refuse(argument, fmt::format("it is no {}; export it again", type->str()));
  }

  Operand scalar_type(const c10::Argument& argument, int64_t number) const {
    const std::optional<at::ScalarType> type = exported_type(number);
    if (!type) refuse(argument, "a type that weft lacks; export the model in float32");
    if (*type == graph_.narrow_type) return {.kind = Kind::working_type};
    if (*type == at::kHalf || *type == at::kBFloat16) {
      refuse(argument, fmt::format("{} in the file, whose parameters are of another type; export the model in float32, without "
                                   "autocast: layout.precision chooses the type that trains",
                                   c10::toString(*type)));
    }
    return {.constant = static_cast<int64_t>(*type)};
  }

  Operand memory_format(const c10::Argument& argument, int64_t number) const {
    constexpr at::MemoryFormat kFormats[] = {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast,
                                             at::MemoryFormat::ChannelsLast3d, at::MemoryFormat::Preserve};  // from 1 on
    if (number < 1 || number > static_cast<int64_t>(std::size(kFormats)))
      refuse(argument, "an unknown memory format; export it again");
    return {.constant = static_cast<int64_t>(kFormats[number - 1])};
  }

  /// Flags that export took from the modules' modes are true only in training.
  Operand boolean(const c10::Argument& argument, const ExportedArgument& given) const {
    if (given.kind != Given::boolean) refuse(argument, "it is no bool; export it again");
    const bool is_set = given.integers.front() != 0;
    const ExportedArgument* const mean = argument_named(node_, "running_mean");
    const bool follows_mode =
        is_mode(argument.name()) || (argument.name() == "use_input_stats" && mean != nullptr && mean->kind == Given::value);
    const bool keeps_statistics = argument.name() != "training" || mean == nullptr || mean->kind == Given::value;
    if (follows_mode && is_set && keeps_statistics) return {.kind = Kind::training};
    return {.constant = is_set};
  }

  Operand number(const c10::Argument& argument, const ExportedArgument& given) const {
    if (given.kind == Given::value && !is_tensor(given.values.front())) return value(given);
    if (given.kind == Given::boolean && argument.type()->kind() == c10::TypeKind::NumberType)
      return {.constant = given.integers.front() != 0};
    if (given.kind == Given::integer) return {.constant = static_cast<double>(given.integers.front())};
    if (given.kind != Given::number) refuse(argument, "it is no number; export it again");
    return {.kind = argument.name() == "dropout_p" ? Kind::training_share : Kind::constant, .constant = given.numbers.front()};
  }

  Operand list(const c10::Argument& argument, const c10::ListType& type, const ExportedArgument& given) const {
    const c10::TypePtr& element = type.getElementType();
    if (element->kind() == c10::TypeKind::TensorType || element->kind() == c10::TypeKind::OptionalType) {
      if (given.kind == Given::none || given.kind == Given::values) {
        return tensors(argument, given, element->kind() == c10::TypeKind::OptionalType);
      }
    } else if (element->kind() == c10::TypeKind::IntType) {
      return integers(argument, given);
    } else if (element->kind() == c10::TypeKind::BoolType && given.kind == Given::booleans) {
      c10::List<bool> flags;
      for (const int64_t flag : given.integers) flags.push_back(flag != 0);
      return {.constant = flags};
    } else if (element->kind() == c10::TypeKind::FloatType && given.kind == Given::numbers) {
      return {.constant = given.numbers};
    }
    refuse(argument, fmt::format("weft gives no list of {}; export it again", element->str()));
  }

  Operand tensors(const c10::Argument& argument, const ExportedArgument& given, bool takes_none) const {
    if (given.values.empty())
      refuse(argument, "it is an empty list; export it again");  // some operators read its first element
    Operand operand{.kind = takes_none ? Kind::optional_tensors : Kind::tensors};
    for (const std::string& name : given.values) {
      const bool is_none = takes_none && name.empty();
      if (!is_none && !is_tensor(name)) refuse(argument, "an element is no tensor; export it again");
      operand.slots.push_back(is_none ? -1 : slot_of_(name));
    }
    return operand;
  }

  /// A list of a fixed length has one number for each dimension, or one for all: not all kernels check it.
  std::vector<int64_t> fitted(const c10::Argument& argument, const std::vector<int64_t>& given) const {
    const auto length = static_cast<size_t>(std::max(1, argument.N().value_or(1)));
    const bool may_be_empty = argument.default_value() && argument.default_value()->isIntList();
    if (length == 1 || given.size() == length ||
        (given.empty() && may_be_empty && argument.default_value()->toIntVector().empty()))
      return given;
    if (given.size() != 1) refuse(argument, fmt::format("it has {} integers, not {}; export it again", given.size(), length));
    return std::vector<int64_t>(length, given.front());
  }

  Operand integers(const c10::Argument& argument, const ExportedArgument& given) const {
    if (given.kind == Given::integers) return {.constant = fitted(argument, given.integers)};
    if (given.kind == Given::integer) {
      return {.constant =
                  std::vector<int64_t>(static_cast<size_t>(std::max(1, argument.N().value_or(1))), given.integers.front())};
    }
    if (given.kind != Given::values) refuse(argument, "it is no list of integers; export it again");
    Operand operand{.kind = Kind::integers, .slots = {}, .integers = fitted(argument, given.integers)};
    for (const std::string& name : given.values) {
      if (is_tensor(name)) refuse(argument, "an element is a tensor; export it again");
      operand.slots.push_back(name.empty() ? -1 : slot_of_(name));
    }
    operand.slots.resize(operand.integers.size(), operand.slots.empty() ? -1 : operand.slots.front());
    return operand;
  }

  const ExportedGraph& graph_;
  const ExportedNode& node_;
  c10::function_ref<int(const std::string&)> slot_of_;
  bool is_factory_ = false;
};

/// Where the samples are in what a dropout takes, so that its mask does not depend on the micro-batch.
void place_samples(const ExportedGraph& graph, const ExportedNode& node, Operation& operation) {
  const bool has_input = !node.inputs.empty() && !node.inputs.front().second.values.empty();
  const auto shape = graph.shapes.find(has_input ? node.inputs.front().second.values.front() : "");
  if (shape == graph.shapes.end()) refuse_node(graph, node, "it has no input; export it again");
  const auto& dims = shape->second.dims;
  const std::string& samples = graph.shapes.at(graph.inputs.front()).dims.front().symbol;
  const auto varies =
      std::find_if(dims.begin(), dims.end(), [&](const ExportedDim& dim) { return dim.factor > 0 && dim.symbol == samples; });
  if (varies == dims.end()) {
    refuse_node(graph, node,
                "no dimension of its input is of samples, so its mask could not be the same in every layout; "
                "apply dropout to activations, not to weights");
  }
  operation.dim = varies - dims.begin();
  operation.factor = varies->factor;
}

/// Refuses operators that draw at random whether the model trains or not.
void check_random(const ExportedGraph& graph, const ExportedNode& node, const c10::OperatorHandle& handle) {
  if (!handle.hasTag(at::Tag::nondeterministic_seeded)) return;
  const auto& all = handle.schema().arguments();
  const bool has_mode =
      std::any_of(all.begin(), all.end(), [](const c10::Argument& x) { return is_mode(x.name()) || x.name() == "dropout_p"; });
  if (has_mode) return;
  refuse_node(graph, node,
              "the file does not say that it draws in training alone, so evaluations would draw too; of random operators "
              "weft trains torch.nn.Dropout, stochastic depth by sample, and those with a training argument");
}

/// Operands of Python's operators, which have no schema.
std::vector<Operand> plain_operands(const ExportedGraph& graph, const ExportedNode& node,
                                    c10::function_ref<int(const std::string&)> slot_of) {
  using Given = ExportedArgument::Kind;
  std::vector<Operand> operands;
  for (const auto& [name, given] : node.inputs) {
    if (given.kind == Given::value)
      operands.push_back({.kind = Operand::Kind::value, .slots = {slot_of(given.values.front())}});
    else if (given.kind == Given::integer)
      operands.push_back({.constant = given.integers.front()});
    else if (given.kind == Given::number)
      operands.push_back({.constant = given.numbers.front()});
    else
      refuse_node(graph, node, "an operand is no number; export it again");
  }
  return operands;
}

}  // namespace

Operation make_operation(const ExportedGraph& graph, const ExportedNode& node, const BoundNode& bound,
                         c10::function_ref<int(const std::string&)> slot_of) {
  Operation operation{.name = node.name,
                      .target = node.target,
                      .handle = bound.handle,
                      .returns_list = node.returns_list,
                      .no_grad = node.no_grad};
  if (bound.kind == BoundNode::Kind::arithmetic) {
    if (!is_arithmetic(node.target))
      refuse_node(graph, node, "not among the operators on sizes that weft computes; simplify the forward");
    operation.kind = Operation::Kind::arithmetic;
    operation.operands = plain_operands(graph, node, slot_of);
    return operation;
  }
  const std::optional<SampleMask> mask = sample_mask_of(graph, node);
  if (!mask) check_random(graph, node, *bound.handle);
  operation.operands = ArgumentBinder(graph, node, slot_of).bind(bound.handle->schema());
  const std::string& name = bound.handle->operator_name().name;
  operation.types = type_rule(name);
  operation.check = check_of(*bound.handle);
  operation.clears = leaves_memory_unset(*bound.handle);
  if (mask) {
    operation.kind = Operation::Kind::sample_mask;
    operation.factor = mask->factor;
    operation.evaluated = mask->evaluated;
  }
  if (name != "aten::dropout" && name != "aten::dropout_") return operation;
  operation.kind = Operation::Kind::dropout;
  const ExportedArgument* const p = argument_named(node, "p");
  const bool drops = p == nullptr || (p->numbers != std::vector<double>{0.0} && p->integers != std::vector<int64_t>{0});
  if (drops) place_samples(graph, node, operation);
  return operation;
}

}  // namespace weft
