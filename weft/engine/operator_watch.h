// OperatorWatch: follows values that are not finite through a thread's operators, to the one that made them.
//
// Each operator's floating-point inputs and outputs are read. An output that is not finite has an origin: the operator itself,
// if its inputs were finite, or the origin of the first input that was not. An infinity that a caller wrote on purpose (a
// mask's) is an origin too, but not that of a NaN made from it: the operator that made the NaN is. Autograd's nodes are
// followed into their threads. Costs a pass over each input and output, and their memory; only for steps that are repeated.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "weft/engine/finding.h"
#include "weft/engine/operator_observer.h"

namespace weft {

/// What an OperatorWatch has seen, and where it is.
class SeenOperators : public c10::DebugInfoBase {
 public:
  bool is_on = false;                                  ///< operators are looked at
  Finding here = {};                                   ///< pass, block and micro-batch that new origins are of
  int64_t samples = 0;                                 ///< of the micro-batch
  int64_t tokens = 0;                                  ///< rows per sample that a tensor may have in its first dim
  int64_t first_sample = -1;                           ///< position in the run of its first one
  std::unordered_map<const void*, std::string> names;  ///< of tensors, by address

  /// Before the operators of a scope, such as a block's forward.
  void begin_scope() {
    scope_begin_ = origins_.size();
    scope_input_ = -1;
  }
  void set_scope_input(int origin) { scope_input_ = scope_input_ < 0 ? origin : scope_input_; }  ///< of one that is not finite
  /// Origin of a value that no operator made, if the scope has a likely one: the first made in it, else its input's; else -1.
  int likely_origin() const;
  /// Index of the origin of the tensor's values, which are not finite; -1: unknown.
  int origin_of(const at::Tensor& tensor) const;
  /// Adds an origin: `here`, of that kind; `value` is what was made, or was there. `is_constant`: written on purpose.
  int add(Finding::Kind kind, std::string operation, std::vector<TensorRange> inputs, const at::Tensor& value,
          bool is_constant = false);
  /// The same for a value that no operator made.
  int add(Finding::Kind kind, const at::Tensor& value, const TensorRange& range);
  void mark(const at::Tensor& tensor, int origin);
  const Finding& finding(int origin) const { return origins_[static_cast<size_t>(origin)].finding; }
  const std::string& last() const { return last_; }  ///< operator or kernel

  std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& fn);
  void after(const at::RecordFunction& fn, at::ObserverContext* context);

 private:
  struct Call;
  struct Origin {
    Finding finding;
    bool is_constant = false;  ///< written on purpose
  };
  struct Mark {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    int origin;
  };
  void look_at(const at::Tensor& input, const std::string& argument, bool is_written, Call& call);
  void look_at_output(const at::Tensor& output, const std::string& name, bool makes_memory, const Call& call);
  std::string name_of(const at::Tensor& tensor, const std::string& argument) const;

  std::vector<Origin> origins_;
  size_t scope_begin_ = 0;
  int scope_input_ = -1;
  std::unordered_map<const c10::StorageImpl*, Mark> marks_;
  std::vector<std::string> nodes_;  ///< of autograd's, the innermost last
  std::string last_;
};

/// Watches this thread's operators during its lifetime.
class OperatorWatch {
 public:
  explicit OperatorWatch(std::shared_ptr<SeenOperators> seen);

 private:
  OperatorObserver observer_;
};

}  // namespace weft
