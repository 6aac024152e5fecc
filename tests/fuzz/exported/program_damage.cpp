#include "tests/fuzz/exported/program_damage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

#include "tests/fuzz/exported/random_call.h"

namespace weft::fuzz {
namespace {

using nlohmann::json;
using test::Random;

/// Stands for a value that is nested deep, which copies and comparisons of JSON cannot take.
constexpr const char* kDeep = "@deep";

std::string text_of(const json& damaged) {
  std::string text = damaged.dump(-1, ' ', false, json::error_handler_t::replace);
  const std::string mark = fmt::format("\"{}\"", kDeep);
  constexpr size_t kDepth = 100'000;
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark))
    text.replace(at, mark.size(), std::string(kDepth, '[') + std::string(kDepth, ']'));
  return text;
}

json& any_of(json& array, Random& random) { return array[static_cast<size_t>(random.below(static_cast<int>(array.size())))]; }

void collect_leaves(json& value, std::vector<json*>& leaves) {
  if (!value.is_structured()) leaves.push_back(&value);
  if (!value.is_structured()) return;
  for (json& inner : value) collect_leaves(inner, leaves);
}

json odd_value(Random& random) {
  if (random.one_in(12)) return json(static_cast<size_t>(100'000), 7);
  if (random.one_in(12)) return std::string(100'000, 'x');
  if (random.one_in(3)) return any_integer(random);
  static const std::vector<json> all = {
      -1, 1e300, true, nullptr, "", json::array(), json::object(), "Infinity", json::array({1, 2, "3"}), UINT64_MAX, kDeep};
  return random.of(all);
}

/// Any place of the value, whatever it means.
void change_leaf(json& value, Random& random) {
  std::vector<json*> leaves;
  collect_leaves(value, leaves);
  if (leaves.empty()) return;
  json& leaf = *random.of(leaves);
  if (random.one_in(4)) {
    leaf = odd_value(random);
  } else if (leaf.is_number_integer()) {
    leaf = any_integer(random);
  } else {
    leaf = *random.of(leaves);  // of the same program
  }
}

/// Any entry of an object is lost, or has another key.
void change_key(json& value, Random& random) {
  json* at = &value;
  for (int depth = random.below(12); depth > 0; --depth) {
    if (!at->is_structured() || at->empty()) break;
    json& inner =
        at->is_array() ? any_of(*at, random) : std::next(at->begin(), random.below(static_cast<int>(at->size()))).value();
    if (!inner.is_structured()) break;
    at = &inner;
  }
  if (!at->is_object() || at->empty()) return;
  const std::string key = std::next(at->begin(), random.below(static_cast<int>(at->size()))).key();
  json entry = std::move((*at)[key]);
  at->erase(key);
  if (random.one_in(3)) return;
  (*at)[random.of<std::string>({"as_tensor", "as_int", "as_ints", "as_none", "as_bool", "as_float", "as_sym_int", "as_tensors",
                                "as_expr", "as_graph", "as_string", "as_scalar_type", "as_optional_tensor", "name", "x"})] =
      std::move(entry);
}

/// Changes of one program.
class ProgramDamage {
 public:
  ProgramDamage(json& program, Random& random)
      : random_(random),
        program_(program),
        module_(program["graph_module"]),
        graph_(module_["graph"]),
        nodes_(graph_["nodes"]),
        shapes_(graph_["tensor_values"]) {}

  void change() {
    if (nodes_.empty() || shapes_.empty()) return;
    switch (random_.below(18)) {
      case 0:
        nodes_.erase(static_cast<size_t>(place()));
        return;
      case 1:
        nodes_.insert(nodes_.begin() + place(), json(node()));
        return;
      case 2:
        std::swap(node(), node());
        return;
      case 3:
      case 4:
        return retarget();
      case 5:
        return change_argument();
      case 6:
        return swap_operator();
      case 7:
        return change_shape();
      case 8:
        return change_signature();
      case 9:
        return change_modules();
      case 10:
        return wrap();
      case 11:
        return change_leaf(random_.one_in(3) ? program_ : node(), random_);
      case 12:
        return change_key(random_.one_in(3) ? program_ : node(), random_);
      default:
        return add_call();
    }
  }

 private:
  int place() { return random_.below(static_cast<int>(nodes_.size())); }
  json& node() { return any_of(nodes_, random_); }

  /// Tensors that nodes before this one make, and what the program holds.
  std::vector<std::string> values_before(int place) {
    std::vector<std::string> values;
    std::set<std::string> later;
    for (size_t i = static_cast<size_t>(place); i < nodes_.size(); ++i) {
      std::vector<json*> leaves;
      collect_leaves(nodes_[i]["outputs"], leaves);
      for (const json* leaf : leaves) later.insert(leaf->dump());
    }
    for (const auto& [name, shape] : shapes_.items()) {
      if (later.count(json(name).dump()) == 0) values.push_back(name);
    }
    if (values.empty() || random_.one_in(50)) values.emplace_back("nothing");
    return values;
  }

  /// The places of values' names among a node's arguments.
  std::vector<json*> names_in(json& node) {
    std::vector<json*> leaves;
    for (json& input : node["inputs"]) collect_leaves(input["arg"], leaves);
    std::erase_if(leaves, [&](const json* leaf) { return !leaf->is_string() || !shapes_.contains(leaf->get<std::string>()); });
    return leaves;
  }

  void retarget() {
    const int at = place();
    const std::vector<json*> names = names_in(nodes_[static_cast<size_t>(at)]);
    if (!names.empty()) *random_.of(names) = random_.of(values_before(random_.one_in(8) ? 1 << 20 : at));
  }

  void change_argument() {
    json& inputs = node()["inputs"];
    if (inputs.empty()) return;
    json& one = any_of(inputs, random_);
    json& others = node()["inputs"];
    const json& other = any_of(random_.one_in(2) || others.empty() ? inputs : others, random_);
    switch (random_.below(5)) {
      case 0:
        inputs.erase(static_cast<size_t>(random_.below(static_cast<int>(inputs.size()))));
        return;
      case 1:
        inputs.push_back(json(other));
        return;
      case 2:
        one["name"] = json(other["name"]);
        return;
      case 3:
        one["arg"] = json(other["arg"]);
        return;
      default:
        change_leaf(one["arg"], random_);
    }
  }

  c10::OperatorName any_operator() {
    while (true) {
      const c10::OperatorName& name = random_.of(all_operators());
      const bool is_plain = name.name.starts_with("aten::") && !name.name.starts_with("aten::_") &&
                            name.overload_name.find("out") == std::string::npos;
      if (is_plain || random_.one_in(10)) return name;
    }
  }

  void swap_operator() {
    const int at = place();
    json& one = nodes_[static_cast<size_t>(at)];
    if (random_.one_in(3)) {
      one["target"] = json(node()["target"]);
      return;
    }
    std::vector<std::string> made;
    const json call = random_call(any_operator(), values_before(at), "swapped", random_, made);
    one["target"] = call["target"];
    if (random_.one_in(2)) one["inputs"] = call["inputs"];
  }

  /// A new call, whose result takes the place of a later argument.
  void add_call() {
    const int at = place();
    std::vector<std::string> made;
    const std::string prefix = fmt::format("new{}_", nodes_.size());
    json call = random_call(any_operator(), values_before(at), prefix, random_, made);
    if (random_.one_in(2)) {  // keeps its place in the model
      const std::vector<json*> to = names_in(nodes_[static_cast<size_t>(at)]), from = names_in(call);
      if (!to.empty() && !from.empty()) *from.front() = *to.front();
    }
    for (const std::string& name : made) shapes_[name] = any_of_shapes();
    call["metadata"] = nodes_[static_cast<size_t>(at)]["metadata"];
    const std::vector<json*> names = names_in(nodes_[static_cast<size_t>(at)]);
    if (!made.empty() && !names.empty()) *names.front() = random_.of(made);
    nodes_.insert(nodes_.begin() + at, std::move(call));
  }

  json any_of_shapes() { return std::next(shapes_.begin(), random_.below(static_cast<int>(shapes_.size()))).value(); }

  void change_shape() {
    json& shape = std::next(shapes_.begin(), random_.below(static_cast<int>(shapes_.size()))).value();
    json& sizes = shape["sizes"];
    const json symbol = {
        {"as_expr",
         {{"expr_str", random_.of<std::string>({"Symbol('s77', integer=True)", "Mul(Integer(2), Symbol('s77'))",
                                                "Mul(Integer(9223372036854775807), Symbol('s77'))", "Symbol('", "Mul(Integer(",
                                                "Symbol('t')", "Add(Symbol('s77'), Integer(1))"})},
          {"hint", {{"as_int", any_integer(random_)}}}}}};
    switch (random_.below(5)) {
      case 0:
        shape = any_of_shapes();
        return;
      case 1:
        shape["dtype"] = random_.below(36);
        return;
      case 2:
        sizes.push_back(random_.one_in(2) ? symbol : json{{"as_int", any_integer(random_)}});
        return;
      default:
        if (!sizes.empty()) any_of(sizes, random_) = random_.one_in(2) ? symbol : json{{"as_int", any_integer(random_)}};
    }
  }

  void change_signature() {
    json& specs = module_["signature"][random_.one_in(4) ? "output_specs" : "input_specs"];
    if (specs.empty()) return;
    json& one = any_of(specs, random_);
    switch (random_.below(5)) {
      case 0:
        specs.erase(static_cast<size_t>(random_.below(static_cast<int>(specs.size()))));
        return;
      case 1:
        specs.push_back(json(one));
        return;
      case 2:
        one = json(any_of(specs, random_));
        return;
      case 3:
        return change_key(one, random_);
      default:
        return change_leaf(one, random_);
    }
  }

  void change_modules() {
    node()["metadata"]["nn_module_stack"] =
        random_.of<std::string>({"", "L_", "L_,,", "L_,a;L_,b,c", "L__self__,,x;L__self__h.0,h.0,x;L__self__h.0.y,h.0.y@3,x",
                                 ";;;;", "L_,h.1,x", std::string(20'000, ';'), "L_,\x1b[31m,x"});
  }

  /// Nodes become a region.
  void wrap() {
    const int first = place();
    json inner = json::array({nodes_[static_cast<size_t>(first)]});
    json region = {
        {"nodes", inner}, {"inputs", json::array()}, {"outputs", json(inner[0]["outputs"])}, {"tensor_values", json::object()}};
    json outputs = inner[0]["outputs"];
    json arguments = json::array({{{"name", "a"}, {"arg", {{"as_bool", random_.one_in(2)}}}, {"kind", 1}},
                                  {{"name", "b"}, {"arg", {{"as_graph", {{"name", "g"}, {"graph", region}}}}}, {"kind", 1}}});
    nodes_[static_cast<size_t>(first)] = {{"target", "torch.ops.higher_order.wrap_with_set_grad_enabled"},
                                          {"inputs", arguments},
                                          {"outputs", outputs},
                                          {"metadata", json::object()},
                                          {"name", fmt::format("region{}", first)}};
  }

  Random& random_;
  json &program_, &module_, &graph_, &nodes_, &shapes_;
};

}  // namespace

std::string damaged_program(const std::string& program, Random& random) {
  static std::map<std::string, json> known;  // parsing takes longer than copying
  json& good = known[program];
  if (good.is_null()) good = json::parse(program);
  json parsed = good;
  try {
    for (int times = random.one_in(3) ? 1 + random.below(4) : 1; times > 0; --times) ProgramDamage(parsed, random).change();
  } catch (const json::exception&) {  // an earlier change left nothing to change
  }
  return text_of(parsed);
}

std::string damaged_weights_list(const std::string& list, Random& random) {
  json parsed = json::parse(list);
  const auto entry = [&]() -> json& {
    json& config = parsed.at("config");
    if (!config.is_object() || config.empty()) throw std::runtime_error("no entry is left");
    return std::next(config.begin(), random.below(static_cast<int>(config.size()))).value();
  };
  try {
    for (int times = 1 + random.below(3); times > 0; --times) {
      json& one = entry();
      json& meta = one["tensor_meta"];
      switch (random.below(9)) {
        case 0:
          meta["dtype"] = random.below(36) - 2;
          break;
        case 1:
          one["path_name"] = random.of<json>({entry()["path_name"], "../../models/model.json", "/etc/passwd", "", 7});
          break;
        case 2:
          meta["storage_offset"]["as_int"] = any_integer(random);
          break;
        case 3:
          change_leaf(meta["strides"], random);
          break;
        case 4:
          change_leaf(meta["sizes"], random);
          break;
        case 5:
          meta["sizes"].push_back({{"as_int", any_integer(random)}});
          meta["strides"].insert(meta["strides"].begin(), {{"as_int", any_integer(random)}});
          break;
        case 6:
          change_key(random.one_in(2) ? one : parsed, random);
          break;
        case 7: {
          json copy = entry();
          one = std::move(copy);
          break;
        }
        default:
          change_leaf(random.one_in(2) ? one : parsed, random);
      }
    }
  } catch (const std::exception&) {  // an earlier change left nothing to change
  }
  return text_of(parsed);
}

}  // namespace weft::fuzz
