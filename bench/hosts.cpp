// Times collectives over several hosts: weft's two levels vs Gloo's flat ones. 4 KiB to 64 MiB of float32.
//
// One rank of a world that its environment describes; bench/hosts/collectives starts the ranks on hosts that it makes. The two
// take turns within one run, sample by sample; each figure is the median of its samples on rank 0, which prints a line of JSON
// per size.
//
//   hosts [MAX_BYTES]
#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/peers/gloo.h"
#include "bench/timed_calls.h"
#include "weft/base/median.h"
#include "weft/comm/group.h"
#include "weft/comm/mesh.h"

namespace {

using weft::Group;
using weft::ReduceOp;
using weft::bench::repeats_for;
using weft::bench::seconds_of;

/// One implementation of a collective.
struct Candidate {
  std::string name;
  at::Tensor written;  ///< rewritten before each call, as a backward does
  std::function<void()> call;
};

nlohmann::json measure(const Group& group, weft::bench::PlainGloo& gloo, int64_t bytes) {
  const int64_t numel = bytes / 4, part = numel / group.size();
  const at::Tensor whole = group.allocate(numel, at::kFloat, "whole"), plain = at::zeros({numel}, at::kFloat);
  const at::Tensor shard = at::zeros({part}, at::kFloat);
  const std::vector<Candidate> candidates = {
      {"all_reduce", whole, [&] { group.all_reduce(whole, ReduceOp::sum, "all_reduce").wait(); }},
      {"gloo all_reduce", plain, [&] { gloo.all_reduce(plain); }},
      {"reduce_scatter", whole, [&] { group.reduce_scatter(shard, whole, ReduceOp::sum, "reduce_scatter").wait(); }},
      {"gloo reduce_scatter", plain, [&] { gloo.reduce_scatter(shard, plain); }},
      {"all_gather", shard, [&] { group.all_gather(whole, shard, "all_gather").wait(); }},
      {"gloo all_gather", shard, [&] { gloo.all_gather(plain, shard); }},
  };
  nlohmann::json row = {{"ranks", group.size()}, {"bytes", bytes}};
  std::vector<int> repeats;
  for (const Candidate& candidate : candidates)
    repeats.push_back(repeats_for(group, candidate.written, candidate.call, 0.05, 200));
  std::vector<std::vector<double>> samples(candidates.size());
  for (int round = 0; round < 5; ++round) {
    for (size_t i = 0; i < candidates.size(); ++i)
      samples[i].push_back(seconds_of(group, candidates[i].written, candidates[i].call, repeats[i]));
  }
  for (size_t i = 0; i < candidates.size(); ++i) row[candidates[i].name + " us"] = weft::median(samples[i]) * 1e6;
  return row;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t max_bytes = argc > 1 ? std::atoll(argv[1]) : 64 << 20;
  try {
    at::set_num_threads(1);
    const weft::World world = weft::World::from_environment();
    const weft::Mesh mesh(world, {{"all", world.size()}});
    const Group group = mesh.group(mesh.axis("all"));
    weft::bench::PlainGloo gloo(mesh);
    for (int64_t bytes = 4 << 10; bytes <= max_bytes; bytes *= 4) {
      const nlohmann::json row = measure(group, gloo, bytes);
      if (world.rank() == 0) fmt::print("{}\n", row.dump());
      std::fflush(stdout);
    }
    group.barrier("end").wait();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
