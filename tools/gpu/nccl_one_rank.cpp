// Calls each collective of weft's NCCL back end on one rank, in NCCL's order and in tree order, compares what it gives, and
// times all_reduce. Prints a line of JSON per order; status 1 if a value differs or a call fails.
//
// A group of one rank never reaches a back end (Group is the identity there), so this is what a machine with one GPU can run of
// it: start, streams, waits, the companion that compares calls, shutdown. Nothing crosses a link; send and receive need a
// second rank.
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/stopwatch.h"
#include "weft/comm/c10d/c10d_backends.h"
#include "weft/comm/world.h"

namespace {

using namespace weft;

constexpr int64_t kNumel = 1 << 20;  // 4 MiB of float32
constexpr int kTimedCalls = 1000;

/// Returns the names of the calls, and whether each gave what one rank must get.
std::vector<std::pair<std::string, bool>> values(Backend& backend, const at::Tensor& want) {
  std::vector<std::pair<std::string, bool>> found;
  const auto note = [&](const char* name, const at::Tensor& got, const at::Tensor& expected) {
    found.emplace_back(name, at::equal(got, expected));
  };
  const at::Tensor input = want.clone(), output = backend.allocate(kNumel, at::kFloat, "output");
  backend.all_reduce(input, ReduceOp::sum, "all_reduce").wait();
  note("all_reduce", input, want);
  backend.reduce_scatter(output, input, ReduceOp::sum, "reduce_scatter").wait();
  note("reduce_scatter", output, want);
  output.zero_();
  backend.all_gather(output, input, "all_gather").wait();
  note("all_gather", output, want);
  output.zero_();
  backend.all_to_all(output, input, "all_to_all").wait();
  note("all_to_all", output, want);
  backend.broadcast(input, 0, "broadcast").wait();
  note("broadcast", input, want);
  const at::Tensor narrow = want.to(at::kBFloat16), narrow_want = narrow.clone();
  backend.all_reduce(narrow, ReduceOp::sum, "all_reduce of bf16").wait();
  note("all_reduce of bf16", narrow, narrow_want);
  backend.barrier("barrier").wait();
  return found;
}

/// Returns whether all values are right.
bool check(bool tree_order) {
  const GroupOptions options{.device = at::Device(at::kCUDA, 0), .timeout = std::chrono::seconds(30), .tree_order = tree_order};
  const World world = World::threads(2).front();  // a world of one rank has no store
  const Stopwatch start;
  const Axis axis{.name = "one", .ranks = {0}, .index = 0};
  const auto backend =
      make_device_backend({axis, {world.host(0)}, world.next_group_store(), options, Deadline(options.timeout)});
  const at::Tensor want = at::arange(kNumel, at::TensorOptions().dtype(at::kFloat).device(options.device));
  const auto found = values(*backend, want);
  const double start_s = start.seconds();

  const Stopwatch calls;
  for (int i = 0; i < kTimedCalls; ++i) backend->all_reduce(want, ReduceOp::sum, "timed").wait();
  const double host_us = calls.seconds() / kTimedCalls * 1e6;
  want.sum().item<float>();  // waits for the GPU
  const double device_us = calls.seconds() / kTimedCalls * 1e6;

  std::string equal;
  for (const auto& [name, is_equal] : found) equal += fmt::format("{}\"{}\": {}", equal.empty() ? "" : ", ", name, is_equal);
  fmt::print("{{\"order\": \"{}\", \"equal\": {{{}}}, \"start_s\": {:.3f}, \"host_us\": {:.1f}, \"device_us\": {:.1f}}}\n",
             tree_order ? "tree" : "NCCL", equal, start_s, host_us, device_us);
  return std::all_of(found.begin(), found.end(), [](const auto& call) { return call.second; });
}

}  // namespace

int main() {
  try {
    const bool plain = check(false), tree = check(true);
    return plain && tree ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "nccl_one_rank: {}\n", error.what());
    return 1;
  }
}
