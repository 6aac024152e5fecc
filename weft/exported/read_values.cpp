#include "weft/exported/read_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "weft/base/file_error.h"
#include "weft/base/parse_number.h"
#include "weft/base/printable.h"
#include "weft/checkpoint/weights/exported_file.h"
#include "weft/checkpoint/weights/exported_json.h"

namespace weft {
namespace {

using GraphJson = nlohmann::json;
using ArgumentKind = ExportedArgument::Kind;

/// Infinity and NaN are texts.
double number_of_json(const GraphJson& value) {
  if (!value.is_string()) return value.get<double>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto text = value.get<std::string>();
  if (text == "Infinity") return kInfinity;
  if (text == "-Infinity") return -kInfinity;
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  throw FileError(fmt::format("'{}' is no number", shortened(text)));
}

/// Appends one element of a list: a name, an integer, or none.
void add_value(ExportedArgument& list, const GraphJson& element) {
  std::string name;
  int64_t integer = 0;
  if (element.contains("name")) {
    name = element.at("name").get<std::string>();
  } else {
    const auto [kind, value] = entry_of(element);
    if (kind == "as_name") name = value.get<std::string>();
    if (kind == "as_tensor") name = value.at("name").get<std::string>();
    if (kind == "as_int") integer = exported_integer(value);
  }
  list.values.push_back(std::move(name));
  list.integers.push_back(integer);
}

/// A value that depends on sizes, or turned out not to.
ExportedArgument symbolic(const GraphJson& value) {
  const auto [kind, inner] = entry_of(value);
  if (kind == "as_name") return {.kind = ArgumentKind::value, .values = {inner.get<std::string>()}};
  if (kind == "as_int") return {.kind = ArgumentKind::integer, .integers = {exported_integer(inner)}};
  if (kind == "as_float") return {.kind = ArgumentKind::number, .numbers = {number_of_json(inner)}};
  if (kind == "as_bool") return {.kind = ArgumentKind::boolean, .integers = {inner.get<bool>()}};
  return {.kind = ArgumentKind::other, .text = kind};
}

template <class Value>
std::vector<Value> list_of(const GraphJson& values) {
  std::vector<Value> result;
  for (const GraphJson& value : values) result.push_back(value.get<Value>());
  return result;
}

ExportedArgument list_argument(const std::string& kind, const GraphJson& value) {
  ExportedArgument argument;
  if (kind == "as_ints" || kind == "as_bools") {
    argument.kind = kind == "as_ints" ? ArgumentKind::integers : ArgumentKind::booleans;
    for (const GraphJson& x : value) argument.integers.push_back(x.is_boolean() ? x.get<bool>() : exported_integer(x));
  } else if (kind == "as_floats") {
    argument.kind = ArgumentKind::numbers;
    for (const GraphJson& x : value) argument.numbers.push_back(number_of_json(x));
  } else if (kind == "as_tensors" || kind == "as_optional_tensors" || kind == "as_sym_ints") {
    argument.kind = ArgumentKind::values;
    for (const GraphJson& x : value) add_value(argument, x);
  } else {
    argument = {.kind = ArgumentKind::other, .text = kind};
  }
  return argument;
}

/// Reads "Symbol('s77', ...)" and "Mul(Integer(2), Symbol('s77', ...))"; other expressions depend on it in another way.
ExportedDim dim_of(const GraphJson& json) {
  if (json.contains("as_int")) return {.size = exported_integer(json.at("as_int"))};
  const GraphJson& expression = json.at("as_expr");
  const auto text = expression.at("expr_str").get<std::string>();
  constexpr std::string_view kSymbol = "Symbol('", kTimes = "Mul(Integer(";
  std::string_view rest = text;
  ExportedDim dim{.symbol = text};
  const GraphJson hint = expression.value("hint", GraphJson());
  if (hint.is_object() && hint.contains("as_int")) dim.size = exported_integer(hint.at("as_int"));
  int64_t factor = 1;
  if (rest.starts_with(kTimes)) {
    rest.remove_prefix(kTimes.size());
    const size_t end = std::min(rest.find(')'), rest.size());
    const std::optional<int64_t> number = parse_number<int64_t>(rest.substr(0, end));
    factor = number.value_or(0);
    rest = rest.substr(std::min(end + 3, rest.size()));  // "), "
  }
  const size_t end = rest.find('\'', kSymbol.size());
  const bool is_last = end != std::string_view::npos && rest.find('(', end) == std::string_view::npos;
  if (!rest.starts_with(kSymbol) || !is_last || factor < 1) return dim;
  dim.symbol = rest.substr(kSymbol.size(), end - kSymbol.size());
  dim.factor = factor;
  return dim;
}

}  // namespace

std::pair<std::string, const GraphJson&> entry_of(const GraphJson& one) {
  if (!one.is_object() || one.size() != 1) throw FileError("a value has no kind");
  const auto entry = one.items().begin();
  return {entry.key(), entry.value()};
}

ExportedArgument argument_of(const GraphJson& json) {
  const auto [kind, value] = entry_of(json);
  const auto integer = [&value = value](ArgumentKind k) -> ExportedArgument {
    return {.kind = k, .integers = {exported_integer(value)}};
  };
  if (kind == "as_none") return {};
  if (kind == "as_tensor") return {.kind = ArgumentKind::value, .values = {value.at("name").get<std::string>()}};
  if (kind == "as_optional_tensor") return argument_of(value);
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") return symbolic(value);
  if (kind == "as_int") return integer(ArgumentKind::integer);
  if (kind == "as_float") return {.kind = ArgumentKind::number, .numbers = {number_of_json(value)}};
  if (kind == "as_bool") return {.kind = ArgumentKind::boolean, .integers = {value.get<bool>()}};
  if (kind == "as_string") return {.kind = ArgumentKind::text, .text = value.get<std::string>()};
  if (kind == "as_scalar_type") return integer(ArgumentKind::scalar_type);
  if (kind == "as_memory_format") return integer(ArgumentKind::memory_format);
  if (kind == "as_layout") return integer(ArgumentKind::layout);
  if (kind == "as_device") return {.kind = ArgumentKind::device};
  return list_argument(kind, value);
}

std::map<std::string, ExportedShape> shapes_of(const GraphJson& tensors) {
  std::map<std::string, ExportedShape> shapes;
  for (const auto& [name, meta] : tensors.items()) {
    ExportedShape& shape = shapes[name];
    shape.type = exported_type(exported_integer(meta.at("dtype"))).value_or(at::ScalarType::Undefined);
    for (const GraphJson& size : meta.at("sizes")) shape.dims.push_back(dim_of(size));
  }
  return shapes;
}

}  // namespace weft
