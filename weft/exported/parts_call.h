// PartsCall: one call of an exported graph that takes parts of what ranks of tp share, and rules by operator: those on values
// are in parts_call.cpp, those on shapes in parts_shapes.cpp.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "weft/exported/graph.h"
#include "weft/exported/split_call.h"
#include "weft/exported/split_form.h"
#include "weft/exported/value_flow.h"

namespace weft {

/// What the rules read and write.
struct SplitState {
  const ExportedGraph& graph;
  const ValueFlow& flow;
  std::map<std::string, SplitForm>& forms;  ///< of values so far; others are whole
  SplitSources& sources;
};

/// Follows the division of what a call takes to what it returns.
class PartsCall {
 public:
  PartsCall(const SplitState& state, const ExportedNode& node, const BoundNode& bound);
  /// Returns what changes in the call, and adds the forms of what it returns. Throws InputError if it cannot take parts.
  SplitCall run();

 private:
  /// A tensor that the call takes.
  struct Taken {
    size_t argument = 0;
    int64_t element = -1;  ///< of a list
    std::string value = {};
  };

  using Rule = void (PartsCall::*)();

  Rule rule() const;
  [[noreturn]] void fail(const std::string& text, const std::string& instead = "") const;
  const ExportedArgument* argument(const std::string& name) const;
  const ExportedArgument& given(const std::string& name) const;  ///< which must be there
  int64_t integer(const std::string& name, int64_t otherwise) const;
  int64_t dim_of(const std::string& name, int64_t otherwise) const;
  static int64_t wrapped(int64_t dim, int64_t rank);
  int64_t rank_of_list(const std::string& name) const;
  size_t index_of(const std::string& name) const;

  const std::vector<ExportedDim>& dims(const std::string& value) const;
  int64_t size_at(const std::string& value, int64_t dim) const { return dims(value)[static_cast<size_t>(dim)].size; }
  WholeShape shape(const std::string& value) const;
  int64_t rank(const Taken& taken) const;
  const SplitForm* form_of(const Taken& taken) const;  ///< null: it is whole
  const SplitForm& first_form() const;                 ///< of the first tensor, which must be divided
  const Taken& split_taken() const;                    ///< the first that is divided
  int64_t length(const SplitForm& form) const;         ///< elements of a segment
  /// Number of segments in `size` elements, which must be whole ones.
  int64_t segments_in(const SplitForm& form, int64_t size) const;

  void give(const std::string& output, const SplitForm& form);
  void give_all(const SplitForm& form);
  /// The size at an element of an argument becomes the part's.
  void divide(const std::string& name, int64_t element);
  /// A whole tensor beside parts; `dim`: where they are divided, below 0 if it lacks that dimension.
  void take_beside(const Taken& whole, int64_t dim, const SplitForm& form);
  /// The same for all but the first, of any dimensions.
  void take_rest_beside(const SplitForm& form);
  /// The form of tensors that are broadcast to a number of dimensions.
  SplitForm meet(int64_t rank_of_all);

  void elementwise();
  void as_first();
  void dropout();
  void along_dim();
  void reduce();
  void norm();
  void product();
  void whole_linear();
  void whole_addmm();
  void attention();

  void view();
  void expand();
  void transpose();
  void permute();
  void without_dim();  ///< those that lose a dimension
  void slice();
  void split();
  void chunk();
  void split_segments(const SplitForm& form);
  void concatenate();
  void stack();
  void repeat();

  SplitState state_;
  const ExportedNode& node_;
  const BoundNode& bound_;
  std::string name_;
  std::vector<Taken> taken_;
  SplitCall call_;
};

}  // namespace weft
