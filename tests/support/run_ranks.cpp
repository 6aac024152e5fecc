#include "tests/support/run_ranks.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/slowdown.h"

namespace weft::test {
namespace {

// Outlives run_ranks if a rank hangs.
struct Run {
  std::function<void(World)> body;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<bool> ended;
  int num_ended = 0;
  std::string first_error;
};

void run_rank(const std::shared_ptr<Run>& run, World world) {
  const int rank = world.rank();
  std::string error;
  try {
    at::set_num_threads(1);
    run->body(std::move(world));
  } catch (const std::exception& thrown) {
    error = fmt::format("rank {}: {}", rank, thrown.what());
  } catch (...) {
    error = fmt::format("rank {}: something that is not a std::exception", rank);
  }
  const std::lock_guard lock(run->mutex);
  if (!error.empty() && run->first_error.empty()) run->first_error = std::move(error);
  run->ended[rank] = true;
  ++run->num_ended;
  run->changed.notify_all();
}

}  // namespace

void run_ranks(int size, std::function<void(World)> body, RunOptions options) {
  auto run = std::make_shared<Run>();
  run->body = std::move(body);
  run->ended.assign(size, false);
  std::vector<std::thread> threads;
  for (World& world : options.hosts.empty() ? World::threads(size) : World::threads(options.hosts)) {
    threads.emplace_back([run, world = std::move(world)]() mutable { run_rank(run, std::move(world)); });
  }
  options.timeout *= kSlowdown;
  std::unique_lock lock(run->mutex);
  const bool all = run->changed.wait_for(lock, options.timeout, [&] { return run->num_ended == size; });
  const std::string first_error = run->first_error;
  std::string hanging;
  for (int rank = 0; rank < size; ++rank) {
    if (!run->ended[rank]) hanging += fmt::format(" {}", rank);
  }
  lock.unlock();
  for (std::thread& thread : threads) all ? thread.join() : thread.detach();
  if (!first_error.empty()) throw RankError(first_error);
  if (!all) throw RankError(fmt::format("after {} ms these ranks still run:{}", options.timeout.count(), hanging));
}

}  // namespace weft::test
