// Used by both methods of attention over sequence shards (nn/attention/over_ranks.h): the checks, and the call as kept in the
// graph for backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "weft/comm/group.h"

namespace c10 {
struct IValue;
}

namespace weft {

/// The group of a call and the caller's name for it. The graph keeps a copy, which keeps the group's connection.
struct AttentionCall {
  const char* form;  ///< "ring attention"
  Group group;       ///< ranks that share each sequence
  std::string what;  ///< "layer 3"

  /// `ring attention "layer 3" on group "cp"`, for errors.
  std::string where() const;
};

/// Runs a check whose InputErrors do not say where they occurred, and prefixes them with where().
void check_at_call(const AttentionCall& call, const std::function<void()>& check);

/// Throws InputError unless q, k and v are as nn/attention/over_ranks.h requires.
void check(const AttentionCall& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

/// Wraps the call in a value that an autograd context can keep.
c10::IValue keep_call(const AttentionCall& call);
/// Returns the call kept in such a value. Throws InputError in a backward with create_graph: there is no second derivative.
const AttentionCall& kept_for_backward(const c10::IValue& value);

}  // namespace weft
