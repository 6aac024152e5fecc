// FileTensors: the tensors that an exported file holds beside its graph: parameters, statistics, buffers and constants.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "weft/checkpoint/weights/exported_file.h"
#include "weft/exported/graph.h"
#include "weft/exported/held_tensor.h"

namespace weft {

/// By their values' names; tied ones are one.
class FileTensors {
 public:
  /// `file` must outlive it. Throws InputError for tensors that weft does not train, FileError for damaged ones.
  FileTensors(const ExportedGraph& graph, ExportedFile& file);

  const std::shared_ptr<HeldTensor>& of(const std::string& value) const { return by_value_.at(value); }
  const std::vector<std::shared_ptr<HeldTensor>>& all() const { return order_; }
  /// Of the graph, and of the values that it holds beside its weights.
  uint64_t digest(uint64_t of_graph) const;

 private:
  void check_tied(const ExportedGraph& graph, const ExportedState& state, const ExportedTensor& tensor);
  std::map<std::string, std::string> first_names() const;
  std::shared_ptr<HeldTensor> made(const ExportedState& state, const ExportedTensor& tensor, bool is_statistic);

  ExportedFile& file_;
  std::multiset<std::string> counted_;
  std::map<std::string, const ExportedTensor*> firsts_;
  std::map<std::string, std::shared_ptr<HeldTensor>> by_record_, by_value_;
  std::vector<std::shared_ptr<HeldTensor>> order_;  ///< in the graph's order
};

}  // namespace weft
