// Times how long ranks that do nothing else take to join a world, and the cost to the store. 16 to 4096 ranks, each a thread
// with its own connection, with host names for 8 ranks per host and for one per host, whose answers are longer. The store runs
// in a separate process, as in the launcher.
//
//   bench/join [--json] [--ranks 16,256,1024] [--ranks-per-host 8,1] [--samples 3]
//
// The quickest of several samples counts. The last line extrapolates to 100 000 ranks, with the first value of
// --ranks-per-host: a least-squares fit over all of the above, weighted by ranks, of the store's CPU time beyond an idle
// store's, per rank and per byte of its answer.
#include "weft/comm/join.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bench/timed_calls.h"
#include "weft/base/loopback.h"
#include "weft/base/token.h"
#include "weft/comm/store/equal_runs.h"
#include "weft/comm/store/store_server.h"

namespace {

constexpr int kAsked = 100'000;

struct Settings {
  bool json = false;
  std::vector<int> ranks = {16, 64, 256, 1024, 2048, 4096};
  std::vector<int> ranks_per_host = {8, 1};
  int samples = 3;
};

struct Sample {
  int ranks = 0;
  int ranks_per_host = 1;
  double seconds = 0;
  double store_seconds = 0;  ///< CPU time
  weft::StoreCounts counts = {};
};

double seconds_of(const timeval& time) { return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6; }

std::string host_of(int rank, int ranks_per_host) { return fmt::format("node{:05}", rank / ranks_per_host); }

// Runs a store in its own process until end(), which reads its counts and CPU time.
class Server {
 public:
  Server(weft::FileDescriptor socket, const std::string& token) {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) throw std::runtime_error("no pipe");
    child_ = ::fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::close(to[1]);
      char byte = 0;
      weft::StoreCounts counts;
      {
        const weft::StoreServer server(std::move(socket), token);
        (void)!::read(to[0], &byte, 1);
        counts = server.counts();
      }
      (void)!::write(from[1], &counts, sizeof counts);
      ::_exit(0);
    }
    ::close(to[0]);
    ::close(from[1]);
    to_ = weft::FileDescriptor(to[1]);
    from_ = weft::FileDescriptor(from[0]);
  }

  void end(Sample& sample) {
    to_.close();
    if (::read(from_.get(), &sample.counts, sizeof sample.counts) != sizeof sample.counts) {
      throw std::runtime_error("the store's process has ended");
    }
    rusage used{};
    ::wait4(child_, nullptr, 0, &used);
    sample.store_seconds = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
  }

 private:
  pid_t child_ = -1;
  weft::FileDescriptor to_, from_;
};

// Bytes of the answer to a gather.
int64_t answer_bytes(int ranks, int ranks_per_host) {
  std::map<uint32_t, std::string> values;
  for (int rank = 0; rank < ranks; ++rank) values[static_cast<uint32_t>(rank)] = host_of(rank, ranks_per_host);
  return static_cast<int64_t>(weft::write_runs(values).size());
}

Sample join_all(int size, int ranks_per_host) {
  weft::FileDescriptor socket = weft::listen_on_loopback();
  const int port = weft::port_of(socket);
  const std::string token = weft::make_token();
  Server server(std::move(socket), token);
  std::atomic<bool> go = false;
  std::atomic<int> errors = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    weft::Place place;
    place.ranks = {.rank = rank, .size = size};
    place.rendezvous = {weft::Rendezvous::Server::launcher, "127.0.0.1", port, true};
    place.token = token;
    place.prefix = "weft/0/";
    place.host = host_of(rank, ranks_per_host);
    threads.emplace_back([&, rank, place = std::move(place)] {
      go.wait(false);
      try {
        weft::join_world(place, std::chrono::milliseconds(120'000));
      } catch (const std::exception& error) {
        if (errors++ == 0) fmt::print(stderr, "rank {}: {}\n", rank, error.what());
      }
    });
  }
  Sample sample{.ranks = size, .ranks_per_host = ranks_per_host};
  const auto begin = std::chrono::steady_clock::now();
  go = true;
  go.notify_all();
  for (std::thread& thread : threads) thread.join();
  sample.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  server.end(sample);
  if (errors > 0) throw std::runtime_error(fmt::format("{} of {} ranks did not join", errors.load(), size));
  return sample;
}

// Seconds per rank and per byte of its answer: store_seconds - idle = ranks x (rank + byte x answer).
std::pair<double, double> fit(const std::vector<Sample>& samples, double idle) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const Sample& sample : samples) {
    const auto weight = static_cast<double>(sample.ranks);
    const auto bytes = static_cast<double>(answer_bytes(sample.ranks, sample.ranks_per_host));
    const double each = (sample.store_seconds - idle) / weight;
    n += weight, x += weight * bytes, y += weight * each, xx += weight * bytes * bytes, xy += weight * bytes * each;
  }
  const double byte = std::max(0.0, (n * xy - x * y) / (n * xx - x * x));
  return {(y - byte * x) / n, byte};
}

void print_sample(const Sample& sample, bool json) {
  const auto ranks = static_cast<double>(sample.ranks);
  const nlohmann::json row = {{"ranks", sample.ranks},
                              {"ranks_per_host", sample.ranks_per_host},
                              {"seconds", sample.seconds},
                              {"store_seconds", sample.store_seconds},
                              {"trips_per_rank", static_cast<double>(sample.counts.requests) / ranks},
                              {"bytes_to_store_per_rank", static_cast<double>(sample.counts.bytes_in) / ranks},
                              {"bytes_from_store_per_rank", static_cast<double>(sample.counts.bytes_out) / ranks}};
  if (json) {
    fmt::print("{}\n", row.dump());
  } else {
    fmt::print("{:>6}  {:>6}  {:>8.3f}  {:>13.3f}  {:>10.1f}  {:>8.0f}  {:>10.0f}\n", sample.ranks, sample.ranks_per_host,
               sample.seconds, sample.store_seconds, row["trips_per_rank"].get<double>(),
               row["bytes_to_store_per_rank"].get<double>(), row["bytes_from_store_per_rank"].get<double>());
  }
  std::fflush(stdout);
}

void print_formula(const std::vector<Sample>& samples, double idle, const Settings& settings) {
  const auto [rank_s, byte_s] = fit(samples, idle);
  const int per_host = settings.ranks_per_host.front();
  const auto bytes = static_cast<double>(answer_bytes(kAsked, per_host));
  const nlohmann::json row = {{"ranks", kAsked},
                              {"ranks_per_host", per_host},
                              {"told", true},
                              {"store_seconds_per_rank", rank_s},
                              {"store_seconds_per_byte", byte_s},
                              {"answer_bytes", bytes},
                              {"store_seconds", kAsked * (rank_s + byte_s * bytes)},
                              {"bytes_from_store", kAsked * bytes}};
  if (settings.json) {
    fmt::print("{}\n", row.dump());
  } else {
    fmt::print(
        "the store's process: ranks x ({:.1f} us + answer x {:.3f} ns per byte); {} ranks: answers of {:.0f} bytes, {:.1f} s\n",
        rank_s * 1e6, byte_s * 1e9, kAsked, bytes, row["store_seconds"].get<double>());
  }
}

Settings parse(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json") {
      settings.json = true;
    } else if (argument == "--ranks-per-host" && i + 1 < argc) {
      settings.ranks_per_host = weft::bench::numbers(argument, argv[++i]);
    } else if (argument == "--samples" && i + 1 < argc) {
      settings.samples = std::max(1, std::atoi(argv[++i]));
    } else if (argument == "--ranks" && i + 1 < argc) {
      settings.ranks = weft::bench::numbers(argument, argv[++i]);
    } else {
      throw std::runtime_error(
          fmt::format("unknown argument {}; usage: join [--json] [--ranks 16,1024] [--ranks-per-host 8,1] "
                      "[--samples N]",
                      argument));
    }
  }
  return settings;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Settings settings = parse(argc, argv);
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    if (!settings.json) {
      fmt::print(" ranks   /host   seconds  store's CPU s  trips/rank  bytes to  bytes from (the store, per rank)\n");
    }
    const auto quickest = [&settings](int size, int ranks_per_host) {
      std::vector<Sample> samples;
      for (int i = 0; i < settings.samples; ++i) samples.push_back(join_all(size, ranks_per_host));
      return *std::min_element(samples.begin(), samples.end(),
                               [](const Sample& one, const Sample& other) { return one.seconds < other.seconds; });
    };
    const double idle = quickest(0, 1).store_seconds;
    std::vector<Sample> best;
    for (const int ranks_per_host : settings.ranks_per_host) {
      for (const int size : settings.ranks) {
        best.push_back(quickest(size, ranks_per_host));
        print_sample(best.back(), settings.json);
      }
    }
    // The fit needs two world sizes.
    if (std::set<int>(settings.ranks.begin(), settings.ranks.end()).size() > 1) print_formula(best, idle, settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
