#include "weft/nn/tensor_parallel/overlapped.h"

#include <ATen/ops/empty.h>
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/nn/functional/matmul.h"
#include "weft/nn/tensor_checks.h"

namespace weft {

namespace {

using Tensors = std::vector<at::Tensor>;

/// `count` positions starting at `first`.
struct Chunk {
  int64_t first;
  int64_t count;
};

std::vector<Chunk> chunks_of(int64_t size, int chunks) {
  const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(chunks, size));
  std::vector<Chunk> result;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t first = size * part / parts;
    result.push_back({first, size * (part + 1) / parts - first});
  }
  return result;
}

std::vector<int64_t> with_last(at::IntArrayRef sizes, int64_t last) {
  std::vector<int64_t> result = sizes.vec();
  result.back() = last;
  return result;
}

Travelling begin_whole_sum(const Tensors& x, int64_t columns, const MultiplyRows& multiply, const Reduction& reduction) {
  Tensors rows;
  for (const at::Tensor& tensor : x) rows.push_back(as_rows(tensor));
  const at::Tensor sum = at::empty(with_last(x.front().sizes(), columns), x.front().options());
  std::vector<Work> works;
  for (const Chunk& chunk : chunks_of(rows.front().size(0), reduction.chunks)) {
    Tensors in;
    for (const at::Tensor& tensor : rows) in.push_back(tensor.narrow(0, chunk.first, chunk.count));
    const at::Tensor out = as_rows(sum).narrow(0, chunk.first, chunk.count);
    multiply(in, out);
    works.push_back(reduction.group.all_reduce(out, ReduceOp::sum, reduction.what));
  }
  return {std::move(works), [sum] { return sum; }};
}

/// x [batch, tokens, ...] as [ranks, batch, a rank's tokens, ...]: each rank's part is contiguous.
at::Tensor by_rank(const at::Tensor& x, const Group& group) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[1] /= group.size();
  sizes.insert(sizes.begin() + 1, group.size());
  return x.reshape(sizes).movedim(1, 0);
}

Travelling begin_sum_of_tokens(const Tensors& x, int64_t columns, const MultiplyRows& multiply, const Reduction& reduction) {
  check_divides(x.front(), 1, reduction.group, reduction.what);
  Tensors ranks;
  for (const at::Tensor& tensor : x) ranks.push_back(by_rank(tensor, reduction.group));
  const std::vector<int64_t> own = with_last(ranks.front().sizes().slice(1), columns);
  const at::Tensor sum = at::empty(own, x.front().options());
  std::vector<Work> works;
  Tensors outs;                                           // kept until all have been sent
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // parts and their destinations
  for (const Chunk& chunk : chunks_of(own[1], reduction.chunks)) {
    Tensors in;
    for (const at::Tensor& tensor : ranks) in.push_back(tensor.narrow(2, chunk.first, chunk.count));
    const at::Tensor out = at::empty(with_last(in.front().sizes(), columns), sum.options());
    for (at::Tensor& tensor : in) tensor = as_rows(tensor);
    multiply(in, as_rows(out));
    outs.push_back(out);
    const at::Tensor place = sum.narrow(1, chunk.first, chunk.count);
    const at::Tensor part = place.is_contiguous() ? place : at::empty(place.sizes(), place.options());
    works.push_back(reduction.group.reduce_scatter(part, out, ReduceOp::sum, reduction.what));
    if (!part.is_same(place)) copies.emplace_back(place, part);
  }
  return {std::move(works), [sum, outs = std::move(outs), copies = std::move(copies)] {
            for (const auto& [place, part] : copies) place.copy_(part);
            return sum;
          }};
}

}  // namespace

at::Tensor Travelling::wait() {
  for (Work& work : works_) work.wait();
  works_.clear();
  return std::exchange(finish_, {})();
}

void check_divides(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what) {
  TensorChecks(what).dim("x", x, dim);
  if (x.size(dim) % group.size() == 0) return;
  throw InputError(fmt::format("{}: {} positions along dim {} do not divide over the {} ranks of group \"{}\"; take a multiple",
                               what, x.size(dim), dim, group.size(), group.name()));
}

Travelling begin_gather(const at::Tensor& x, int64_t dim, const Group& group, const std::string& what) {
  dim = TensorChecks(what).dim("x", x, dim);
  const at::Tensor own = x.contiguous();
  std::vector<int64_t> shape = own.sizes().vec();
  shape.insert(shape.begin(), group.size());
  const at::Tensor all = at::empty(shape, own.options());
  std::vector<Work> works = {group.all_gather(all, own, what)};
  // A copy, unless the dims before `dim` have size one.
  return {std::move(works), [all, own, dim] { return all.movedim(0, dim).flatten(dim, dim + 1); }};
}

Travelling begin_sum(const Tensors& x, int64_t columns, const MultiplyRows& multiply, const Reduction& reduction) {
  if (x.empty()) throw InputError(reduction.what + ": there is nothing to sum");
  const TensorChecks check(reduction.what);
  for (const at::Tensor& tensor : x) {
    check.floats("x", tensor, reduction.to_tokens ? 3 : 1);
    check.that(tensor.sizes().slice(0, tensor.dim() - 1) == x.front().sizes().slice(0, x.front().dim() - 1), "x", tensor,
               "equal in all dims except the last");
  }
  return reduction.to_tokens ? begin_sum_of_tokens(x, columns, multiply, reduction)
                             : begin_whole_sum(x, columns, multiply, reduction);
}

}  // namespace weft
