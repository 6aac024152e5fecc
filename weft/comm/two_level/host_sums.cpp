// The sums of HostOperations: on this host, and over hosts.
#include <ATen/ops/empty.h>

#include <cstring>
#include <vector>

#include "weft/comm/reduce/reduce.h"
#include "weft/comm/two_level/host_operations.h"

namespace weft {
namespace {

const std::byte* begin_of(const at::Tensor& tensor) { return static_cast<const std::byte*>(tensor.const_data_ptr()); }

}  // namespace

// This host's terms of a piece, `stride` elements apart.
void HostOperations::add_up_inside(ReduceOp op, const at::Tensor& terms, int64_t stride, int64_t begin, int64_t numel,
                                   const void* const* sources) const {
  std::vector<const void*> chosen;
  for (size_t term = 0; term < own_terms_.size(); ++term) {
    chosen.clear();
    for (const int place : own_terms_[term].places) chosen.push_back(sources[place]);
    void* target = static_cast<std::byte*>(terms.data_ptr()) +
                   (static_cast<int64_t>(term) * stride + begin) * static_cast<int64_t>(terms.element_size());
    reduce_tree({terms.scalar_type(), op}, &target, 1, chosen.data(), static_cast<int>(chosen.size()), numel);
  }
}

// `terms[h]`: the terms of host h, one after another.
void HostOperations::add_up_hosts(ReduceOp op, const at::Tensor& output, const std::vector<at::Tensor>& terms) const {
  const int64_t numel = output.numel(), item = static_cast<int64_t>(output.element_size());
  const TreeReduction kind{output.scalar_type(), op};
  std::vector<const void*> sources;
  std::vector<int64_t> used(map_.num_hosts());
  for (const HostSum::Term& term : sum_.terms()) {
    sources.push_back(begin_of(terms[term.host]) + used[term.host]++ * numel * item);
  }
  void* target = output.data_ptr();
  if (sum_.is_plain()) {
    reduce_tree(kind, &target, 1, sources.data(), static_cast<int>(sources.size()), numel);
    return;
  }
  std::vector<const void*> values;
  std::vector<at::Tensor> sums;  // keeps the memory of `values`
  for (const HostSum::Node& node : sum_.nodes()) {
    if (node.term >= 0) {
      values.push_back(sources[node.term]);
      continue;
    }
    const void* both[] = {values[node.left], values[node.right]};
    sums.push_back(at::empty({numel}, output.options()));
    void* sum = sums.back().data_ptr();
    reduce_tree(kind, &sum, 1, both, 2, numel);
    values.push_back(sum);
  }
  std::memcpy(target, values.back(), static_cast<size_t>(numel * item));
}

}  // namespace weft
