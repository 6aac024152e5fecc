#include "tests/fuzz/exported/random_call.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace weft::fuzz {
namespace {

using nlohmann::json;
using test::Random;

double any_double(Random& random) { return random.of<double>({0.0, 1.0, -1.0, 0.5, 2.0, 1e-5, 1e30, -1e300}); }

json number_argument(Random& random) {
  if (random.one_in(12)) return {{"as_float", random.of<std::string>({"NaN", "Infinity", "-Infinity"})}};
  if (random.one_in(2)) return {{"as_int", any_integer(random)}};
  return {{"as_float", any_double(random)}};
}

json text_argument(Random& random) {
  return {{"as_string", random.of<std::string>({"mean",         "sum",     "none",        "tanh",        "floor", "trunc",
                                                "constant",     "reflect", "replicate",   "circular",    "left",  "right",
                                                "xy",           "ij",      "nuc",         "fro",         "amax",  "prod",
                                                "linear",       "reduced", "same",        "valid",       "L",     "ij,jk->ik",
                                                "...ij->...ji", "i->",     "ab,cd->abcd", "/etc/passwd", "%s%n",  ""})}};
}

class CallWriter {
 public:
  CallWriter(const std::vector<std::string>& values, Random& random) : values_(values), random_(random) {}

  json argument(const c10::Type& type) {
    switch (type.kind()) {
      case c10::TypeKind::OptionalType:
        if (random_.one_in(2)) return {{"as_none", true}};
        return argument(*type.castRaw<c10::OptionalType>()->getElementType());
      case c10::TypeKind::TensorType:
        if (random_.one_in(12)) return number_argument(random_);
        return {{"as_tensor", tensor()}};
      case c10::TypeKind::ListType:
        return list(*type.castRaw<c10::ListType>()->getElementType());
      case c10::TypeKind::BoolType:
        return {{"as_bool", random_.one_in(2)}};
      case c10::TypeKind::FloatType:
      case c10::TypeKind::NumberType:
        return number_argument(random_);
      case c10::TypeKind::StringType:
        return text_argument(random_);
      case c10::TypeKind::ScalarTypeType:
        return {{random_.one_in(8) ? "as_int" : "as_scalar_type", random_.below(16)}};
      case c10::TypeKind::MemoryFormatType:
        return {{random_.one_in(8) ? "as_int" : "as_memory_format", random_.below(6)}};
      case c10::TypeKind::LayoutType:
        return {{"as_layout", 7}};
      case c10::TypeKind::DeviceObjType:
        return {{"as_device", {{"type", "cpu"}, {"index", nullptr}}}};
      default:
        return {{"as_int", any_integer(random_)}};
    }
  }

 private:
  json tensor() { return {{"name", random_.of(values_)}}; }

  json list(const c10::Type& element) {
    const int count = random_.one_in(20) ? 40 : random_.below(5);
    const auto listed = [&](const char* kind, const auto& make) {
      json elements = json::array();
      for (int i = 0; i < count; ++i) elements.push_back(make());
      return json{{kind, elements}};
    };
    if (element.kind() == c10::TypeKind::TensorType) return listed("as_tensors", [&] { return tensor(); });
    if (element.kind() == c10::TypeKind::OptionalType) {
      return listed("as_optional_tensors", [&]() -> json {
        return random_.one_in(3) ? json{{"as_none", true}} : json{{"as_tensor", tensor()}};
      });
    }
    if (element.kind() == c10::TypeKind::BoolType) return listed("as_bools", [&] { return random_.one_in(2); });
    if (element.kind() == c10::TypeKind::FloatType) return listed("as_floats", [&] { return any_double(random_); });
    return listed("as_ints", [&] { return any_integer(random_); });
  }

  const std::vector<std::string>& values_;
  Random& random_;
};

}  // namespace

const std::vector<c10::OperatorName>& all_operators() {
  static const std::vector<c10::OperatorName> names = [] {
    auto all = c10::Dispatcher::singleton().getAllOpNames();
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::pair(a.name, a.overload_name) < std::pair(b.name, b.overload_name);
    });
    std::erase_if(all, [](const auto& name) { return !c10::Dispatcher::singleton().findSchema(name); });
    return all;
  }();
  return names;
}

int64_t any_integer(Random& random) {
  if (!random.one_in(8)) return random.below(8) - 2;
  return random.of<int64_t>({16, 64, 256, -16, 65536, 1 << 20, INT32_MAX, INT32_MIN, int64_t{1} << 40, INT64_MAX, INT64_MIN});
}

json random_call(const c10::OperatorName& name, const std::vector<std::string>& values, const std::string& prefix,
                 Random& random, std::vector<std::string>& made) {
  const c10::FunctionSchema& schema = c10::Dispatcher::singleton().findSchema(name)->schema();
  CallWriter writer(values, random);
  json inputs = json::array(), outputs = json::array();
  for (const c10::Argument& argument : schema.arguments()) {
    if (argument.default_value() && random.one_in(2)) continue;
    inputs.push_back({{"name", argument.name()}, {"arg", writer.argument(*argument.real_type())}, {"kind", 1}});
  }
  const auto new_tensor = [&] {
    made.push_back(fmt::format("{}{}", prefix, made.size()));
    return json{{"name", made.back()}};
  };
  for (const c10::Argument& result : schema.returns()) {
    if (result.type()->kind() == c10::TypeKind::ListType) {
      json elements = json::array();
      for (int i = random.below(4); i >= 0; --i) elements.push_back(new_tensor());
      outputs.push_back({{"as_tensors", elements}});
    } else if (result.type()->kind() == c10::TypeKind::TensorType || random.one_in(4)) {
      outputs.push_back({{"as_tensor", new_tensor()}});
    } else {
      outputs.push_back({{"as_sym_int", {{"as_name", fmt::format("{}n", prefix)}}}});
    }
  }
  std::string target = name.name;
  if (const size_t at = target.find("::"); at != std::string::npos) target.replace(at, 2, ".");
  return {{"target", fmt::format("torch.ops.{}.{}", target, name.overload_name.empty() ? "default" : name.overload_name)},
          {"inputs", inputs},
          {"outputs", outputs},
          {"metadata", {{"nn_module_stack", "L__self__,,net"}}},
          {"name", prefix}};
}

}  // namespace weft::fuzz
