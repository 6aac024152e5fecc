// Times all_reduce of float32: shm staged, shm in registered buffers, plain Gloo. 4 KiB to 256 MiB, on 2 to 8 ranks, each a
// process with one thread.
//
//   bench/comm [--json] [--ranks 2,4,8] [--max-bytes 268435456]
//
// The three take turns within one run, sample by sample; each figure is the median of its samples on rank 0.
#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/peers/gloo.h"
#include "bench/timed_calls.h"
#include "weft/base/loopback.h"
#include "weft/base/median.h"
#include "weft/comm/group.h"
#include "weft/comm/mesh.h"
#include "weft/comm/store/store_server.h"

namespace {

using weft::Group;
using weft::ReduceOp;
using weft::bench::repeats_for;
using weft::bench::seconds_of;

struct Settings {
  bool json = false;
  std::vector<int> ranks = {2, 4, 8};
  int64_t max_bytes = 256 << 20;
};

std::string size_text(int64_t bytes) {
  return bytes >= 1 << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

// One way to all-reduce a buffer.
struct Candidate {
  at::Tensor buffer;
  std::function<void()> all_reduce;
};

nlohmann::json measure(const Group& group, weft::bench::PlainGloo& gloo, int64_t bytes) {
  const int64_t numel = bytes / 4;
  const at::Tensor plain = at::zeros({numel}, at::kFloat);
  const at::Tensor registered = group.allocate(numel, at::kFloat, "registered");
  const std::vector<Candidate> candidates = {
      {plain, [&] { group.all_reduce(plain, ReduceOp::sum, "staged").wait(); }},
      {registered, [&] { group.all_reduce(registered, ReduceOp::sum, "registered").wait(); }},
      {plain, [&] { gloo.all_reduce(plain); }},
  };
  std::vector<int> repeats;
  for (const Candidate& candidate : candidates)
    repeats.push_back(repeats_for(group, candidate.buffer, candidate.all_reduce, 0.005, 500));
  std::vector<std::vector<double>> samples(candidates.size());
  for (int round = 0; round < (bytes > 32 << 20 ? 5 : 9); ++round) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      samples[i].push_back(seconds_of(group, candidates[i].buffer, candidates[i].all_reduce, repeats[i]));
    }
  }
  return {{"ranks", group.size()},
          {"bytes", bytes},
          {"staged_us", weft::median(samples[0]) * 1e6},
          {"registered_us", weft::median(samples[1]) * 1e6},
          {"gloo_us", weft::median(samples[2]) * 1e6}};
}

void print_row(const nlohmann::json& row, bool json) {
  if (json) {
    fmt::print("{}\n", row.dump());
  } else {
    const double staged = row["staged_us"], registered = row["registered_us"], gloo = row["gloo_us"];
    fmt::print("{:>5}  {:>8}  {:>12.1f}  {:>15.1f}  {:>12.1f}  {:>6.1f}x  {:>9.1f}x\n", row["ranks"].get<int>(),
               size_text(row["bytes"]), staged, registered, gloo, gloo / staged, gloo / registered);
  }
  std::fflush(stdout);
}

void run_rank(const Settings& settings) {
  at::set_num_threads(1);
  const weft::World world = weft::World::from_environment();
  const weft::Mesh mesh(world, {{"all", world.size()}});
  const Group group = mesh.group(mesh.axis("all"), {.backend = weft::BackendKind::shm});
  weft::bench::PlainGloo gloo(mesh);
  for (int64_t bytes = 4 << 10; bytes <= settings.max_bytes; bytes *= 4) {
    const nlohmann::json row = measure(group, gloo, bytes);
    if (world.rank() == 0) print_row(row, settings.json);
  }
  group.barrier("end").wait();
}

// Forks while the process has one thread: the store's threads start after the forks and end with this function.
bool run_world(int size, const Settings& settings) {
  weft::FileDescriptor socket = weft::listen_on_loopback();
  const std::string port = std::to_string(weft::port_of(socket));
  std::fflush(stdout);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::setenv("RANK", std::to_string(rank).c_str(), 1);
      ::setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
      ::setenv("MASTER_ADDR", "127.0.0.1", 1);
      ::setenv("MASTER_PORT", port.c_str(), 1);
      ::setenv("WEFT_STORE", fmt::format("127.0.0.1:{}/{}", port, port).c_str(), 1);
      int status = 0;
      try {
        run_rank(settings);
      } catch (const std::exception& error) {
        fmt::print(stderr, "rank {}: {}\n", rank, error.what());
        status = 1;
      }
      std::fflush(stdout);
      ::_exit(status);
    }
    ranks.push_back(child);
  }
  const weft::StoreServer server(std::move(socket));
  bool well = true;
  for (pid_t rank : ranks) {
    int status = 0;
    ::waitpid(rank, &status, 0);
    well &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return well;
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json") {
      settings.json = true;
    } else if (argument == "--max-bytes" && i + 1 < argc) {
      settings.max_bytes = std::atoll(argv[++i]);
    } else if (argument == "--ranks" && i + 1 < argc) {
      settings.ranks = weft::bench::numbers(argument, argv[++i]);
    } else {
      throw std::runtime_error(
          fmt::format("unknown argument {}; usage: comm [--json] [--ranks 2,4,8] [--max-bytes N]", argument));
    }
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Settings settings = parse(argc, argv);
    if (!settings.json) {
      fmt::print("all_reduce of float32, median us\n");
      fmt::print("ranks      size    shm staged   shm registered    plain gloo  staged  registered\n");
    }
    for (int size : settings.ranks) {
      if (!run_world(size, settings)) return 1;
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
