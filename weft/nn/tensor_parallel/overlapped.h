// Travelling: what goes to other ranks while this one computes.
//
// A collective that has begun is the group's while it travels: on back ends that move bytes by themselves (Gloo, NCCL) what is
// multiplied meanwhile costs no time; on shm, where the ranks move them, begin_...() does all of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "weft/comm/group.h"

namespace weft {

/// A collective under way, and what comes of it.
class Travelling {
 public:
  /// `finish` makes the result of what the works leave.
  Travelling(std::vector<Work> works, std::function<at::Tensor()> finish)
      : works_(std::move(works)), finish_(std::move(finish)) {}
  /// The result, once it is there; to be asked for once. Throws CommError as Work::wait() does.
  at::Tensor wait();

 private:
  std::vector<Work> works_;
  std::function<at::Tensor()> finish_;
};

/// Throws InputError where the ranks do not divide that dim of x.
void check_divides(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);

/// Begins to gather the ranks' x side by side along `dim`. `what` names the call in errors.
Travelling begin_gather(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);

/// How the ranks' products become one.
struct Reduction {
  Group group;             ///< of ranks that add
  bool to_tokens = false;  ///< each rank gets its part along dim 1, which the group divides; otherwise all get the whole
  int chunks = 1;          ///< of rows, at least one each: what one gives travels while the next is multiplied
  std::string what;        ///< names the calls in errors
};

/// Fills `out` [n, columns] from the same n rows of several tensors, [n, ...] each.
using MultiplyRows = std::function<void(const std::vector<at::Tensor>& rows, const at::Tensor& out)>;

/// Begins the sum over the ranks of what `multiply` makes of the rows of x, tensors that differ in their last dims alone; the
/// result has `columns` in place of them. All that is multiplied has been when this returns. Traffic: of b bytes of the product
/// 2 (n-1)/n b, or half of that with to_tokens, whatever the chunks.
Travelling begin_sum(const std::vector<at::Tensor>& x, int64_t columns, const MultiplyRows& multiply,
                     const Reduction& reduction);

}  // namespace weft
