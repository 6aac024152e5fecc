// ExportedGraph: the graph of a program of torch.export, as plain data: ATen operators on named values, in execution order.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weft {

/// An argument of an operator, or what it returns.
struct ExportedArgument {
  enum class Kind {
    none,
    value,   ///< a named tensor, or a number that depends on sizes
    values,  ///< a list of those
    integer,
    integers,
    number,
    numbers,
    boolean,  ///< in `integers`
    booleans,
    text,
    scalar_type,  ///< export's number, in `integers`
    memory_format,
    layout,
    device,
    other,  ///< anything else; `text` is its name in the file
  };
  Kind kind = Kind::none;
  std::vector<std::string> values = {};  ///< names; in a list an empty one is none, or the integer at its place
  std::vector<int64_t> integers = {};
  std::vector<double> numbers = {};
  std::string text = {};
};

/// A call of an operator.
struct ExportedNode {
  std::string name;                  ///< unique in the graph
  std::string target;                ///< "torch.ops.aten.linear.default", "_operator.mul"
  std::vector<std::string> modules;  ///< paths of the modules it is called in, outermost first: "", "h.0", "h.0.attn"
  std::vector<std::pair<std::string, ExportedArgument>> inputs;  ///< by the schema's names
  std::vector<std::string> outputs;                              ///< names; empty for none
  bool returns_list = false;                                     ///< the outputs are elements of one list
  bool no_grad = false;                                          ///< runs under torch.no_grad()
};

/// Size of a dimension.
struct ExportedDim {
  int64_t size = 0;         ///< in the example that was exported
  std::string symbol = {};  ///< what it depends on; empty: it is fixed
  int64_t factor = 0;       ///< it is factor x symbol; 0: it depends on it in another way
};

/// A tensor value.
struct ExportedShape {
  at::ScalarType type = at::kFloat;
  std::vector<ExportedDim> dims;
};

/// A tensor that the program holds.
struct ExportedState {
  enum class Kind { parameter, buffer, constant };
  Kind kind = Kind::parameter;
  std::string value;       ///< its name in the graph
  std::string name;        ///< its name in the module
  bool in_weights = true;  ///< its values are among the file's weights; otherwise its constants
};

/// A program.
struct ExportedGraph {
  std::string path;                             ///< the file, for errors
  std::vector<ExportedState> states;            ///< in the file's order
  std::vector<std::string> inputs;              ///< what the caller gives
  std::vector<std::string> outputs;             ///< what it gets
  std::vector<std::string> guards;              ///< conditions on sizes (exported/size_guards.h)
  std::map<std::string, ExportedShape> shapes;  ///< of its tensors
  std::vector<ExportedNode> nodes;
  at::ScalarType narrow_type = at::ScalarType::Undefined;  ///< float16 or bfloat16, if parameters are
  uint64_t digest = 0;                                     ///< equal for equal operators, arguments and names
};

/// Reads the graph of a program (`json`, from `path`). Throws FileError for damage and for another major version of the schema,
/// InputError for what weft does not train: functionalized programs, inputs or outputs that are not tensors.
ExportedGraph read_graph(const std::string& json, const std::string& path);

/// The calls in Python that export well, for errors: a model of one input, and of several.
extern const char *const kExportCall, *const kExportCallOfSeveral;

}  // namespace weft
