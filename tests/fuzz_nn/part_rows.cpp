// Parts of tensors on ranks and in pieces, and helpers for running graphs.
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>

#include "tests/fuzz_nn/row.h"
#include "weft/nn/cost/activation_bytes.h"
#include "weft/nn/cost/recorded_group.h"
#include "weft/nn/deferred_gradients.h"
#include "weft/nn/functional/matmul.h"
#include "weft/nn/functional/recompute.h"
#include "weft/nn/graph.h"
#include "weft/nn/ordered_sums.h"
#include "weft/nn/parameter_split.h"
#include "weft/nn/sequence/documents.h"
#include "weft/nn/tensor_checks.h"
#include "weft/nn/tensor_parallel/collectives.h"
#include "weft/nn/tensor_parallel/overlapped.h"

namespace weft::fuzz_nn {

namespace {

Group two() { return recorded_group("g", 2, std::make_shared<RecordedCalls>()); }

/// Requires a valid dim of x.
void expect_dim(const at::Tensor& x, int64_t dim) { expect(dim >= -x.dim() && dim < x.dim()); }

using OfDim = at::Tensor (*)(const at::Tensor&, int64_t, const Group&, const std::string&);
using OfAll = at::Tensor (*)(const at::Tensor&, const Group&, const std::string&);

/// On one rank, expects the tensor itself; on two, only that nothing crashes.
void add_collective(std::vector<Row>& rows, const char* name, OfDim call) {
  rows.push_back({name, "fdb~ btw", [call](auto& a, Case& c) { return call(a[0], c.number(1, 1), {}, "x"); },
                  [](auto& a, Case& c) { return expect_dim(a[0], c.number(1, 1)), a; }});
  rows.push_back({name, "bdw", [call](auto& a, Case& c) { call(a[0], c.number(1, -2), two(), "x"); }});
}
void add_collective(std::vector<Row>& rows, const char* name, OfAll call) {
  rows.push_back({name, "fdb~ btw", [call](auto& a) { return call(a[0], two(), "x"); }, [](auto& a) { return a; }});
}

Split split_of(Case& c) {
  return {.dim = c.number(1, 1),
          .segments = {c.size('d')},
          .parts = static_cast<int>(c.number(2, 2)),
          .part = static_cast<int>(c.number(3, 0)),
          .layer = "l"};
}

std::vector<int64_t> whole_of(Case& c) { return {c.size('b'), c.size('d'), c.size('w')}; }

std::vector<Row> split_rows() {
  return {
      {"take_part", "bdw", [](auto& a, Case& c) { return take_part(a[0], split_of(c)); },
       [](auto& a, Case& c) {
         const Split split = split_of(c);
         expect(split.dim >= 0 && split.parts > 0 && split.part >= 0 && split.part < split.parts &&
                a[0].size(split.dim) == c.size('d'));
         const int64_t size = part_of_segment(c.size('d'), split.parts), begin = std::min(c.size('d'), size * split.part);
         const int64_t there = std::min(size, c.size('d') - begin);
         const at::Tensor part = a[0].narrow(split.dim, begin, there);
         std::vector<int64_t> padding = a[0].sizes().vec();
         padding[split.dim] = size - there;
         return at::cat({part, at::zeros(padding, a[0].options())}, split.dim);
       }},
      {"put_part", "bdw btw", [](auto& a, Case& c) { put_part(a[0], a[1], split_of(c)); }},
      {"part_in", "btw", [](auto& a, Case& c) { part_in(a[0].reshape({-1}), whole_of(c), split_of(c)); }},
      {"part_in", "t", [](auto& a, Case& c) { part_in(a[0], whole_of(c), split_of(c)); }},
      {"zero_padding", "t", [](auto& a, Case& c) { zero_padding(a[0], whole_of(c), split_of(c)); }},
      {"batch_piece", "fdb~ dtw", [](auto& a, Case& c) { return batch_piece(a[0], c.number(1, 1), c.number(2, 2)); },
       [](auto& a, Case& c) {
         const int64_t piece = c.number(1, 1), pieces = c.number(2, 2);
         expect(pieces >= 1 && piece >= 0 && piece < pieces && (pieces == 1 || a[0].size(0) % pieces == 0));
         return pieces == 1 ? a[0] : a[0].narrow(0, piece * (a[0].size(0) / pieces), a[0].size(0) / pieces);
       }},
      {"map_batch_pieces", "btw",
       [](auto& a, Case& c) { return map_batch_pieces(c.number(1, 2), [&](int64_t) { return a[0]; }); },
       [](auto& a, Case& c) {
         return expect(c.number(1, 2) >= 1), c.number(1, 2) == 1 ? a[0] : at::cat(Tensors(c.number(1, 2), a[0]));
       }},
      {"sum_of_rows", "fd~ btw", [](auto& a) { return sum_of_rows(a[0]); }, [](auto& a) { return list(a[0].sum()); }},
      {"tree_sum", "btw",
       [](auto& a, Case& c) { return tree_sum(c.number(1, 2), [&](int64_t) { return a[0].detach().clone(); }); },
       [](auto& a, Case& c) {
         return expect(c.number(1, 2) >= 1),
                a[0].is_floating_point() ? a[0] * c.number(1, 2)
                                         : at::cat(Tensors(c.number(1, 2), a[0].unsqueeze(0))).sum(0).to(a[0].scalar_type());
       }},
      {"add_gradient", "nw nw",
       [](auto& a, Case& c) {
         Parameter& parameter = c.hold(a[0].detach(), true);
         add_gradient(parameter, a[1].detach());
         return parameter.gradient;
       },
       [](auto& a) { return expect(a[0].sizes() == a[1].sizes()), a[1]; }},
  };
}

std::vector<Row> graph_rows() {
  return {
      {"check_divides", "bdw", [](auto& a, Case& c) { check_divides(a[0], c.number(1, 1), two(), "x"); }},
      {"TensorChecks", "bdw", [](auto& a, Case& c) { TensorChecks("x").dim("x", a[0], c.number(1, 1)); }},
      {"begin_gather", "bdw", [](auto& a, Case& c) { begin_gather(a[0], c.number(1, 1), two(), "x").wait(); }},
      {"begin_sum", "bdw bdw",
       [](auto& a, Case& c) {
         const MultiplyRows take = [](const Tensors& rows, const at::Tensor& out) { out.copy_(rows.at(0)); };
         begin_sum({a[0], a[1]}, c.number(1, c.size('w')), take, {two(), c.flag(2), static_cast<int>(c.number(3, 2)), "x"})
             .wait();
       }},
      {"detach", "btw", [](auto& a) { detach({a[0]}); }},
      {"detach_outputs", "btw", [](auto& a) { detach_outputs({a[0]}); }},
      {"widen", "btw", [](auto& a) { return widen({a[0]}); }, [](auto& a) { return a; }},
      {"version_of", "btw", [](auto& a) { version_of(a[0]); }},
      {"take_gradients", "btw", [](auto& a) { take_gradients({a[0]}); }},
      {"run_backward", "btw btw", [](auto& a) { run_backward(GraphEnds({a[0] * 2}), {a[1]}); }},
      {"bytes_of", "btw nw", [](auto& a) { bytes_of(a); }},
      {"passed_bytes", "bt#t bt#t",
       [](auto& a) {
         passed_bytes({a[0]}, {a[0], a[1]});
       }},
      {"recompute", "fdb~ btw", [](auto& a) { return recompute([](const at::Tensor& x) { return x * x; }, a[0]); },
       [](auto& a) { return a[0] * a[0]; }},
      {"Documents", "btw bt#2 bt#9",
       [](auto& a) {
         const Documents documents({a[0], a[1]}, {}, "h");
         documents.check_beside(a[2]);
       }},
  };
}

}  // namespace

std::vector<Row> part_rows() {
  std::vector<Row> all = split_rows();
  for (const Row& row : graph_rows()) all.push_back(row);
  add_collective(all, "copy_to", copy_to);
  add_collective(all, "sum_over", sum_over);
  add_collective(all, "gather_over", gather_over);
  add_collective(all, "sum_scatter", sum_scatter);
  add_collective(all, "own_part", own_part);
  add_collective(all, "join_over", join_over);
  add_collective(all, "gathered", gathered);
  add_collective(all, "scattered_sum", scattered_sum);
  return all;
}

}  // namespace weft::fuzz_nn
