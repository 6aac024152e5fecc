#include "weft/cli/rank_process.h"

#include <chrono>
#include <filesystem>

#include "weft/base/environment.h"
#include "weft/cli/launch_ranks.h"
#include "weft/launch/cores.h"
#include "weft/train/run/process_memory.h"

namespace weft {

std::string own_path() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return !error && std::filesystem::exists(path) ? path.string() : "/proc/self/exe";
}

int as_ranks(const Recipe& recipe, std::optional<int> num_ranks, const std::vector<std::string>& command,
             const std::function<void(const World&)>& here) {
  if (num_ranks.value_or(1) > 1) {
    LaunchOptions options;
    options.num_ranks = *num_ranks;
    options.command = command;
    return launch_ranks(options);
  }
  const auto timeout = std::chrono::milliseconds(static_cast<int64_t>(recipe.run.timeout_s * 1e3));
  here(num_ranks ? World() : World::from_environment(timeout));
  return 0;
}

void become_rank(Recipe& recipe, const World& world) {
  keep_and_reuse_memory();
  // A launcher has shared the cores out; alone they are all ours, as far as the container lets us.
  if (!recipe.run.threads && recipe.run.reproducible_slots == 0 && !env_string("OMP_NUM_THREADS")) {
    recipe.run.threads = threads_per_rank(available_cores(), world.local_size());
  }
}

}  // namespace weft
