// Travelling: communication that overlaps computation.
//
// While a collective runs, its buffers belong to the group. Back ends that move bytes asynchronously (Gloo, NCCL) hide it
// behind concurrent products; on shm, where the ranks move the bytes, begin_...() does all the work.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "weft/comm/group.h"

namespace weft {

/// A running collective and its result.
class Travelling {
 public:
  /// `finish` makes the result once all `works` are done.
  Travelling(std::vector<Work> works, std::function<at::Tensor()> finish)
      : works_(std::move(works)), finish_(std::move(finish)) {}
  /// Waits for the result; call it once. Throws CommError like Work::wait().
  at::Tensor wait();

 private:
  std::vector<Work> works_;
  std::function<at::Tensor()> finish_;
};

/// Throws InputError unless the number of ranks divides dim `dim` of x.
void check_divides(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);

/// Begins to gather the ranks' x, concatenated along `dim`. `what` names the call in errors.
Travelling begin_gather(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what);

/// How the ranks' products are added.
struct Reduction {
  Group group;             ///< ranks whose products are added
  bool to_tokens = false;  ///< each rank gets its part along dim 1, which the group divides; otherwise all get the whole
  int chunks = 1;          ///< row chunks of at least one row: one chunk's sum travels while the next is multiplied
  std::string what;        ///< names the calls in errors
};

/// Fills `out` [n, columns] from the same n rows of several tensors, [n, ...] each.
using MultiplyRows = std::function<void(const std::vector<at::Tensor>& rows, const at::Tensor& out)>;

/// Begins to sum, over the ranks, `multiply` applied to the rows of the tensors `x`, which differ only in their last dim; the
/// result's last dim is `columns`. All products are done when this returns. Traffic, for b bytes of the product: 2 (n-1)/n b,
/// or half of that with to_tokens, for any number of chunks.
Travelling begin_sum(const std::vector<at::Tensor>& x, int64_t columns, const MultiplyRows& multiply,
                     const Reduction& reduction);

}  // namespace weft
