// weft k8s: a training as a Kubernetes manifest. Prints; launch/kubernetes/manifest.h writes it.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>

#include "weft/base/error.h"
#include "weft/base/input_file.h"
#include "weft/base/target_device.h"
#include "weft/base/units.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/options/repeatable.h"
#include "weft/cli/output/output.h"
#include "weft/launch/kubernetes/manifest.h"
#include "weft/launch/kubernetes/names.h"
#include "weft/launch/kubernetes/pod_paths.h"
#include "weft/plan/forecast.h"
#include "weft/plan/host_memory.h"
#include "weft/plan/make_plan.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/read/recipe_paths.h"

namespace weft {

namespace {

struct K8sArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  int gpus = 0;
  std::optional<int> restarts;
  std::vector<std::string> data;
  KubernetesOptions options;
};

constexpr int64_t kMostRecipeBytes = 1'000'000;  ///< limit of a ConfigMap
constexpr int64_t kSecondsToEnd = 30;            ///< in addition to save.deadline_s, for the end of ranks and agents
constexpr int kRestarts = 3;                     ///< if neither the recipe nor the command line sets it
constexpr int kCpusOfRank = 4;                   ///< if the recipe does not set run.threads
constexpr int64_t kGiB = int64_t{1} << 30;

std::string random_token() {
  std::array<unsigned char, 32> bytes{};
  if (getentropy(bytes.data(), bytes.size()) != 0) throw Error("k8s: the system has no random numbers for the job's token");
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

ClaimMount parse_mount(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) throw InputError(fmt::format("--data {}: write CLAIM:/FOLDER", text));
  return {.claim = text.substr(0, colon), .path = text.substr(colon + 1)};
}

/// Sets the pod's memory, and a comment on how it adds up.
void forecast_memory(KubernetesOptions& options, const Recipe& recipe, int world) {
  Recipe planned = recipe;
  planned.run.device = kTargetDevices.of(options.gpus ? TargetDevice::gpu : TargetDevice::cpu);
  const int64_t rank = host_bytes_of_rank(planned, recipe_memory(planned, world));
  // 10 % more, because a pod that reaches its limit is killed.
  const double bytes =
      1.1 * static_cast<double>(rank) * options.ranks + size_in_bytes("--shared-memory", options.shared_memory);
  options.memory = fmt::format("{}Gi", static_cast<int64_t>(std::ceil(bytes / static_cast<double>(kGiB))));
  options.memory_reason =
      fmt::format("an upper bound: {} per rank{}, 10 % more, and {} for /dev/shm", format_bytes(rank),
                  options.gpus ? " in host memory" : " (weft memory, plus the process)", options.shared_memory);
}

void fill(K8sArguments& arguments, const Recipe& recipe) {
  KubernetesOptions& options = arguments.options;
  options.gpus = arguments.gpus > 0;
  if (options.gpus) options.ranks = arguments.gpus;
  const int world = options.nodes * options.ranks;
  check_plan(recipe, world);
  check_resumes_automatically(recipe, "a pod");

  options.recipe_name = std::filesystem::path(arguments.recipe).filename();
  options.recipe = read_text_file("the recipe", arguments.recipe, kMostRecipeBytes);
  if (!options.recipe.ends_with('\n')) options.recipe += '\n';  // so that YAML can hold it as lines
  if (options.name.empty()) options.name = kubernetes_name(arguments.recipe);
  for (const std::string& override : arguments.overrides) options.train_arguments.push_back("--set=" + override);
  options.restarts = arguments.restarts.value_or(recipe.run.restarts > 0 ? static_cast<int>(recipe.run.restarts) : kRestarts);
  options.saves = !recipe.save.folder.empty();
  if (options.saves) options.grace_s = static_cast<int64_t>(std::ceil(recipe.save.deadline_s)) + kSecondsToEnd;
  for (const std::string& text : arguments.data) options.data.push_back(parse_mount(text));
  if (options.token_secret.empty()) options.token = random_token();
  if (options.cpus.empty()) {
    options.cpus =
        fmt::to_string(options.ranks * (recipe.run.threads.value_or(kCpusOfRank) + (options.gpus ? recipe.data.workers : 0)));
  }
  if (options.memory.empty()) forecast_memory(options, recipe, world);

  std::vector<PodPath> paths;
  for (const RecipePath& path : recipe_paths(recipe)) {
    paths.push_back({.key = path.key, .path = path.path, .is_url = is_url(path.path), .is_kept = path.is_kept});
  }
  options.notes = placed_paths(options, paths);
  if (recipe.data.path.empty() && recipe.data.mix.empty()) {
    options.notes.push_back(fmt::format("data.path is not set: {} is read from its place in the image", recipe.data.name));
  }
  if (recipe.save.folder.empty()) options.notes.emplace_back("save.folder is not set: an interrupted training starts over");
}

void add_places(CLI::App& command, K8sArguments& arguments) {
  KubernetesOptions& options = arguments.options;
  CLI::Option* claim =
      command.add_option("--claim", options.claim,
                         "Name of an existing volume claim to mount at /work, the pods' working folder, where the recipe's "
                         "relative paths are. With several nodes, all must be able to write to it");
  CLI::Option* storage =
      command.add_option("--storage", options.storage, "Size of a new volume to use instead: 100Gi")->excludes(claim);
  command.add_option("--storage-class", options.storage_class, "Storage class of the new volume. Default: the cluster's")
      ->needs(storage);
  repeatable(command.add_option("--data", arguments.data, "Mount this claim's volume at /FOLDER, read-only; repeatable"),
             "CLAIM:/FOLDER");
  repeatable(command.add_option("--env-from-secret", options.env_secrets,
                                "Secret whose entries become environment variables, such as AWS_ACCESS_KEY_ID; repeatable"),
             "NAME");
  command.add_option("--service-account", options.service_account,
                     "Service account of the pods, for clouds that attach credentials to it");
  command.add_option("--token-secret", options.token_secret,
                     "Secret whose entry 'token' is the job's shared secret. Default: a new random one");
}

void add_sizes(CLI::App& command, K8sArguments& arguments) {
  KubernetesOptions& options = arguments.options;
  command.add_option("--cpus", options.cpus, "CPUs per pod. Default: run.threads per rank, or 4");
  command.add_option("--memory", options.memory, "Memory per pod, e.g. 64Gi. Default: an upper bound from `weft memory`");
  command.add_option("--shared-memory", options.shared_memory, "Size of /dev/shm, for NCCL")->default_val("1Gi");
  command
      .add_option("--restarts", arguments.restarts,
                  "Maximum restarts of failed ranks within the pods. Default: run.restarts, or 3")
      ->check(CLI::Range(0, 1000000));
  command
      .add_option("--replacements", options.replacements,
                  "Maximum replacements of a failed pod; with --jobset, of all pods together")
      ->default_val(3)
      ->check(CLI::Range(0, 1000000));
  command.add_option("--join-timeout", options.join_timeout_s, "Seconds that pods wait for a late pod, or for a replacement")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  command.add_option("--port", options.port, "Port of the head")->capture_default_str()->check(CLI::Range(1024, 65535));
  command.add_option("--health-port", options.health_port, "Port on which each pod answers GET /livez and /healthz")
      ->capture_default_str()
      ->check(CLI::Range(1024, 65535));
  command.add_flag("--one-pod-a-node", options.one_pod_a_node, "Never place two pods of the training on one machine");
}

}  // namespace

void add_k8s(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("k8s", "Write a Kubernetes manifest that trains a recipe");
  auto arguments = std::make_shared<K8sArguments>();
  KubernetesOptions& options = arguments->options;
  add_recipe(*command, arguments->recipe, arguments->overrides);
  command->add_option("--nodes", options.nodes, "Number of pods")->required()->check(CLI::Range(1, 100000));
  CLI::Option_group* ranks = command->add_option_group("ranks");
  ranks->add_option("--gpus", arguments->gpus, "GPUs per pod, one rank on each")->check(CLI::Range(1, 1024));
  ranks->add_option("-n,--ranks", options.ranks, "Ranks per pod, on its CPUs")->check(CLI::Range(1, 1024));
  ranks->require_option(1);
  command->add_option("--image", options.image, "Container image with weft")->required();
  command->add_option("--name", options.name, "Name of the Job and its Service. Default: the recipe's");
  command->add_option("--namespace", options.name_space, "Namespace. Default: the current one of kubectl");
  command->add_flag("--jobset", options.jobset, "Write a JobSet (jobset.sigs.k8s.io): a failed pod restarts them all");
  add_places(*command, *arguments);
  add_sizes(*command, *arguments);
  command->footer(
      "See docs/kubernetes.md. --set is passed on to the pods.\n"
      "\n"
      "Example:\n"
      "  weft k8s recipes/gpt.toml --nodes 4 --gpus 8 --image registry.example/weft \\\n"
      "    --set save.folder=runs/gpt --storage 100Gi >gpt.yaml");
  command->callback([arguments, &status] {
    fill(*arguments, load_recipe(arguments->recipe, arguments->overrides));
    write_out(kubernetes_manifest(arguments->options));
    status = 0;
  });
}

}  // namespace weft
