#include <fmt/format.h>

#include <algorithm>

#include "weft/base/file_error.h"
#include "weft/base/hash.h"
#include "weft/base/printable.h"
#include "weft/checkpoint/weights/exported_json.h"
#include "weft/exported/graph.h"
#include "weft/exported/read_nodes.h"
#include "weft/exported/read_values.h"

namespace weft {

const char* const kExportCall = "torch.export.export(model.train(), (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))";
const char* const kExportCallOfSeveral =
    "torch.export.export(model.train(), (x, y), dynamic_shapes=({0: batch}, {0: batch})) with batch = "
    "torch.export.Dim(\"batch\")";

namespace {

using GraphJson = nlohmann::json;
using ArgumentKind = ExportedArgument::Kind;

constexpr int kSchemaMajor = 8;

/// Adds one input of the program: a tensor that it holds, or one that the caller gives.
void add_input(ExportedGraph& graph, const GraphJson& json) {
  const auto [kind, spec] = entry_of(json);
  if (kind == "user_input") {
    const ExportedArgument argument = argument_of(spec.at("arg"));
    if (argument.kind == ArgumentKind::value) return graph.inputs.push_back(argument.values.front());
    throw InputError(
        fmt::format("{}: an input is no tensor; export a model whose forward takes the inputs of a batch alone", graph.path));
  }
  const bool is_parameter = kind == "parameter", is_buffer = kind == "buffer";
  if (!is_parameter && !is_buffer && kind != "tensor_constant") {
    throw InputError(
        fmt::format("{}: it has an input of kind '{}'; export it as {}", graph.path, shortened(kind), kExportCall));
  }
  const char* const name = is_parameter ? "parameter_name" : is_buffer ? "buffer_name" : "tensor_constant_name";
  graph.states.push_back({.kind = is_parameter ? ExportedState::Kind::parameter
                                  : is_buffer  ? ExportedState::Kind::buffer
                                               : ExportedState::Kind::constant,
                          .value = spec.at("arg").at("name").get<std::string>(),
                          .name = spec.at(name).get<std::string>(),
                          .in_weights = is_parameter || (is_buffer && spec.at("persistent").get<bool>())});
}

void add_output(ExportedGraph& graph, const GraphJson& json) {
  const auto [kind, spec] = entry_of(json);
  if (kind != "user_output") {
    throw InputError(
        fmt::format("{}: it has an output of kind '{}', so it was decomposed or made functional; save what {} returns",
                    graph.path, shortened(kind), kExportCall));
  }
  const ExportedArgument argument = argument_of(spec.at("arg"));
  if (argument.kind == ArgumentKind::none) return;
  if (argument.kind != ArgumentKind::value || graph.shapes.count(argument.values.front()) == 0) {
    throw InputError(fmt::format("{}: an output is no tensor; export a model whose forward returns tensors", graph.path));
  }
  graph.outputs.push_back(argument.values.front());
}

/// The numbers of samples for which export has decided branches by itself (`Dim("batch", max=4)`), as conditions.
void add_ranges(ExportedGraph& graph, const GraphJson& ranges) {
  constexpr int64_t kUsualLeast = 2;  // of any symbol: one sample runs the same operators
  for (const std::string& input : graph.inputs) {
    const auto shape = graph.shapes.find(input);
    if (shape == graph.shapes.end() || shape->second.dims.empty() || shape->second.dims.front().factor < 1) continue;
    const ExportedDim& samples = shape->second.dims.front();
    const auto range = ranges.find(samples.symbol);
    if (range == ranges.end()) continue;
    const auto add = [&](const char* comparison, int64_t limit) {
      if (__builtin_mul_overflow(limit, samples.factor, &limit)) return;
      const std::string text = fmt::format("L['{}'].size()[0] {} {}", input, comparison, limit);
      if (std::find(graph.guards.begin(), graph.guards.end(), text) == graph.guards.end()) graph.guards.push_back(text);
    };
    const GraphJson &most = range->at("max_val"), &least = range->at("min_val");
    if (!most.is_null()) add("<=", exported_integer(most));
    if (!least.is_null() && exported_integer(least) > kUsualLeast) add(">=", exported_integer(least));
  }
}

ExportedGraph graph_of(const GraphJson& program, const std::string& path) {
  const int64_t major = exported_integer(program.at("schema_version").at("major"));
  if (major != kSchemaMajor) {
    throw FileError(
        fmt::format("its schema is version {}, weft reads version {}; export it with PyTorch 2.11", major, kSchemaMajor));
  }
  const GraphJson &module = program.at("graph_module"), &graph = module.at("graph");
  ExportedGraph result;
  result.path = path;
  result.shapes = shapes_of(graph.at("tensor_values"));
  for (const GraphJson& input : module.at("signature").at("input_specs")) add_input(result, input);
  for (const GraphJson& output : module.at("signature").at("output_specs")) add_output(result, output);
  result.digest = fnv1a(module.at("signature").dump(), kFnvBasis);
  read_nodes(result, graph.at("nodes"));
  if (const auto guards = program.find("guards_code"); guards != program.end() && !guards->is_null()) {
    result.guards = guards->get<std::vector<std::string>>();
  }
  add_ranges(result, program.at("range_constraints"));
  for (const ExportedState& state : result.states) {
    const auto shape = result.shapes.find(state.value);
    const bool is_parameter = state.kind == ExportedState::Kind::parameter && shape != result.shapes.end();
    if (is_parameter && (shape->second.type == at::kHalf || shape->second.type == at::kBFloat16))
      result.narrow_type = shape->second.type;
  }
  return result;
}

}  // namespace

ExportedGraph read_graph(const std::string& json, const std::string& path) {
  try {
    return graph_of(parse_exported<GraphJson>(json), path);
  } catch (const GraphJson::exception& error) {
    throw FileError(fmt::format("{}: its program is damaged ({}); export it again", path, shortened(error.what())));
  } catch (const FileError& error) {
    throw FileError(fmt::format("{}: its program: {}", path, error.what()));
  }
}

}  // namespace weft
