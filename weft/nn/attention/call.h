// What the forms of attention over sequence shards (nn/attention/over_ranks.h) have in common: the checks, and
// the group that their backward finds in the graph.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "weft/comm/group.h"

namespace c10 {
struct IValue;
}

namespace weft {

/// Among whom, and the caller's name for it. A graph keeps a copy, which keeps the connection.
struct AttentionCall {
  const char* form;  ///< "ring attention"
  Group group;       ///< whose ranks share each sequence
  std::string what;  ///< "layer 3"

  /// `ring attention "layer 3" on group "cp"`, for errors.
  std::string where() const;
};

/// Runs a check whose InputErrors do not tell where it was: they come out with that before them.
void check_there(const AttentionCall& call, const std::function<void()>& check);

/// Throws InputError unless q, k and v are such as nn/attention/over_ranks.h says.
void check(const AttentionCall& call, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v);

/// The call as a value that an autograd context can keep.
c10::IValue keep(const AttentionCall& call);
/// The call in such a value. Throws InputError in a backward whose own graph is asked for: there is no second derivative.
const AttentionCall& kept_for_backward(const c10::IValue& value);

}  // namespace weft
