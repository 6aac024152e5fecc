#include "tests/fuzz/inputs.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <typeinfo>
#include <utility>

#include "tests/fuzz/data_inputs.h"
#include "tests/fuzz/exported/exported_inputs.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/watched.h"
#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/checkpoint/safetensors.h"
#include "weft/comm/world.h"
#include "weft/data/images/idx_images.h"
#include "weft/data/tokens/windows.h"
#include "weft/plan/cost/rank_memory.h"
#include "weft/plan/forecast.h"
#include "weft/plan/make_plan.h"
#include "weft/program/draw/draw.h"
#include "weft/program/schedules/csv.h"
#include "weft/program/schedules/one_f_one_b.h"
#include "weft/recipe/read/read_recipe.h"
#include "weft/recipe/toml/hardware_file.h"

namespace weft::fuzz {
namespace {

using test::Random;

const std::vector<std::string> kRecipes = {
    R"(model = { name = "gpt", layers = 2, heads = 2, width = 32, context = 16 }
data = { name = "text", tokenizer = "bytes" }
batch = { global = 16 }
optimizer = { name = "adamw", lr = 1e-3, warmup = 50, decay = "cosine", final_lr = 0.1, weight_decay = 0.1, clip = 1.0 }
run = { steps = 600, evaluate_every = 100, seed = 1 }
)",
    R"(# every section in full
[model]
name = "gpt"
layers = 4
heads = 2
width = 32
context = 16
vocabulary = 256
tied_embeddings = true
[data]
name = "tokens"
tokenizer = "uint16"
path = "t.bin"
[batch]
global = 32
micro = 2
[layout]
pp = 2
shard = 2
shard_level = "gradients"
schedule = "interleaved"
chunks = 2
stages = "auto"
recompute = "blocks"
recompute_every = 2
precision = "bf16"
reduction = "fp32"
offload_optimizer = "host"
bucket_mb = 1.5
[optimizer]
name = "sgd"
lr = 0.1
momentum = 0.9
[run]
epochs = 1.5
evaluate_every = "1e3 tokens"
threads = 1
timeout_s = 3
[[evaluation]]
name = "other"
path = "u.bin"
)",
    R"(model = { name = "mlp", layers = 3, width = 64, classes = 10 }
data = { name = "images", path = "images" }
batch = { global = 64, micro = 8 }
layout = { shard = 2, shard_level = "parameters", reshard_after_forward = true, prefetch = 2, gathered_mb = 0 }
optimizer = { name = "sgd", lr = 0.01 }
run = { steps = 5, reproducible_slots = 4 }
)"};

const std::vector<std::string> kRecipeWords = {"model",      "data",        "batch",
                                               "layout",     "optimizer",   "run",
                                               "name",       "layers",      "heads",
                                               "width",      "context",     "vocabulary",
                                               "classes",    "dropout",     "path",
                                               "tokenizer",  "global",      "micro",
                                               "dp",         "shard",       "pp",
                                               "cp",         "tp",          "schedule",
                                               "chunks",     "stages",      "stage_gb",
                                               "profile",    "precision",   "prefetch",
                                               "recompute",  "shard_level", "gpt",
                                               "cnn",        "mlp",         "text",
                                               "tokens",     "images",      "auto",
                                               "even",       "zb-v",        "zb-h1",
                                               "gpipe",      "csv",         "none",
                                               "blocks",     "attention",   "bf16",
                                               "fp16",       "host",        "disk",
                                               "parameters", "gradients",   "optimizer",
                                               "nccl",       "gloo",        "shm",
                                               "cuda",       "cpu",         "1,1",
                                               "2,3,1",      "lr",          "clip",
                                               "steps",      "seed",        "timeout_s",
                                               "cosine",     "linear",      "reproducible_slots"};

const std::vector<std::string> kOverrides = {"layout.pp=2",
                                             "model.layers=4",
                                             "batch.global=64",
                                             "batch.micro=1",
                                             "layout.schedule=auto",
                                             "layout.stages=1,2,1",
                                             "layout.shard_level=optimizer",
                                             "optimizer.lr=1e-3",
                                             "run.seed=7",
                                             "layout.precision=bf16",
                                             "data.path=corpus",
                                             "model.dropout=0.5",
                                             "run.reproducible_slots=4",
                                             "model.width=64",
                                             "layout.gathered_mb=1"};

const char* const kHardware = R"(hardware = { name = "CPU, a core a rank", ranks_per_host = 4, overlap = false }
[device]
kind = "cpu"
flops = 96e9
narrow_flops = 96e9
efficiency = 0.5
memory_bytes = 4e9
memory_bytes_per_s = 12.8e9
launch_s = 20e-6
[intra_host]
latency_s = 20e-6
bytes_per_s = 4e9
[inter_host]
latency_s = 100e-6
bytes_per_s = 0.1175e9
[offload]
latency_s = 100e-6
bytes_per_s = inf
)";
const char* const kTimes = R"([measured]
micro_batch = 4
loss_s = 1e-4
update_s_per_element = 1e-9
[[block]]
name = "h.*"
forward_s = 1e-3
backward_s = 2e-3
[[block]]
name = "head"
forward_s = 1e-3
input_s = 1e-3
weight_s = 1e-3
)";
const std::vector<std::string> kHardwareWords = {"hardware", "device", "intra_host", "inter_host", "offload",
                                                 "measured", "block",  "[[block]]",  "name",       "overlap",
                                                 "flops",    "inf",    "latency_s",  "forward_s"};

// Plans as show, memory or simulate do; one of the three, as most of the time goes here.
void plan_all(const Recipe& recipe, Random& random) {
  const int ranks = random.of<int>({1, 2, 4, 4, 8, 64, 0, -1, 1000003, 2147483647});
  switch (random.below(3)) {
    case 0:
      draw(*make_plan(recipe, ranks).program);
      return;
    case 1:
      recipe_memory(recipe, ranks);
      return;
    default:
      recipe_simulation(recipe, ranks, nominal_hardware());
  }
}

void recipe(const std::string& folder, Random& random) {
  const std::string path = folder + "/recipe.toml";
  write(path, damaged(random.of(kRecipes), random.of(kRecipes), kRecipeWords, random));
  plan_all(load_recipe(path), random);
}

void overrides(const std::string& folder, Random& random) {
  const std::string path = folder + "/good.toml";
  write(path, random.of(kRecipes));
  std::vector<std::string> all;
  for (int count = 1 + random.below(3); count > 0; --count) {
    all.push_back(random.one_in(3) ? random.of(kOverrides)
                                   : damaged(random.of(kOverrides), random.of(kOverrides), kRecipeWords, random));
    all.back().erase(std::min(all.back().find('\0'), all.back().size()));  // a command line cannot hold NUL bytes
  }
  plan_all(load_recipe(path, all), random);
}

void hardware(const std::string& folder, Random& random) {
  const std::string path = folder + "/hardware.toml";
  write(path, damaged(kHardware, kTimes, kHardwareWords, random));
  const Recipe small = parse_recipe(kRecipes[0], "good.toml");
  recipe_simulation(small, random.of<int>({1, 2, 8}), load_hardware(path));
}

void profile(const std::string& folder, Random& random) {
  const std::string path = folder + "/profile.toml";
  write(path, damaged(std::string(kHardware) + kTimes, kTimes, kHardwareWords, random));
  Recipe recipe = parse_recipe(kRecipes[0], "good.toml", {"layout.pp=2", "batch.micro=4"});
  recipe.layout.profile = path;
  recipe.layout.schedule = random.one_in(2) ? "auto" : "1f1b";
  recipe_simulation(recipe, 2, load_hardware(path));
}

void schedule(const std::string& folder, Random& random) {
  const std::string path = folder + "/schedule.csv";
  const std::string good = to_csv(one_f_one_b_schedule({.ranks = 2, .micro_batches = 4}));
  write(path, damaged(good, good, {"F0.0", "B1.3", "I0.1", "W0.1", "F2.0", "B0.9", "F", "#"}, random));
  Recipe recipe = parse_recipe(kRecipes[0], "good.toml", {"layout.pp=2", "batch.micro=4"});
  recipe.layout.schedule = "csv";
  recipe.layout.schedule_file = path;
  plan_all(recipe, random);
}

void text(const std::string& folder, Random& random) {
  const std::string path = folder + "/text.bin";
  std::string good;
  for (int i = 0; i < 300; ++i) good += static_cast<char>(random.below(256));
  write(path, damaged(good, good, {}, random));
  TokenFile file{.path = path,
                 .type = random.of<TokenType>({TokenType::u8, TokenType::u16, TokenType::u32, TokenType::as_file}),
                 .vocabulary = random.of<int64_t>({256, 65536, 7, 1, 0, -1, int64_t{1} << 40}),
                 .context = random.of<int64_t>({16, 1, 0, 299, 300, -5, int64_t{1} << 62}),
                 .shift = random.one_in(2)};
  if (random.one_in(4)) file.begin = random.of<double>({0.5, 1.0, -1.0, 2.0, 0.999});
  if (random.one_in(4)) file.end = random.of<double>({0.5, 0.0, -1.0, 2.0, 1e300});
  const auto data = open_tokens(file);
  for (const int64_t at : {int64_t{0}, data->size() - 1, data->size(), int64_t{-1}}) data->get({at}, random.below(3));
}

std::string idx(const std::vector<int>& sizes, int values, Random& random) {
  std::string bytes = {0, 0, 8, static_cast<char>(sizes.size())};
  for (const int size : sizes) bytes += {0, 0, static_cast<char>(size >> 8), static_cast<char>(size)};
  for (int i = 0; i < values; ++i) bytes += static_cast<char>(random.below(10));
  return bytes;
}

void images(const std::string& folder, Random& random) {
  const ImageFiles files{.images = folder + "/images.idx3", .labels = folder + "/labels.idx1", .classes = 10};
  std::string pixels = idx({6, 4, 4}, 96, random), labels = idx({6}, 6, random);
  std::string& hurt = random.one_in(2) ? pixels : labels;
  hurt = damaged(hurt, random.one_in(2) ? pixels : labels, {}, random);
  if (random.one_in(4)) hurt = "\x1f\x8b\x08" + hurt;  // as if it were gzip
  write(files.images, pixels);
  write(files.labels, labels);
  const auto data = open_images(files);
  data->get({0, data->size() - 1}, 0);
}

void weights(const std::string& folder, Random& random) {
  const std::string good = folder + "/good.safetensors", path = folder + "/weights.safetensors";
  if (read(good).empty()) {
    save_safetensors(good, {{"a.weight", at::ones({2, 3})}, {"step", at::arange(4, at::kLong)}}, {{"format", "weft"}});
  }
  const std::string bytes = read(good);
  const std::vector<std::string> words = {"F32",   "I64",          "BF16",         "BOOL", "dtype",
                                          "shape", "data_offsets", "__metadata__", "null"};
  write(path, damaged(bytes, bytes, words, random));
  load_safetensors_metadata(path);
  load_safetensors(path);
}

// Never an address that needs a lookup, nor another rank's place, which would wait.
void environment(const std::string& /*folder*/, Random& random) {
  const std::vector<std::string> names = {
      "RANK",          "WORLD_SIZE", "LOCAL_RANK",   "LOCAL_WORLD_SIZE",           "SLURM_PROCID",    "SLURM_NTASKS",
      "SLURM_LOCALID", "WEFT_HOST",  "WEFT_RESTART", "TORCHELASTIC_RESTART_COUNT", "OMP_NUM_THREADS", "MASTER_PORT"};
  for (const std::string& each : names) unsetenv(each.c_str());
  if (random.one_in(2)) {
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
  }
  setenv("MASTER_ADDR", random.one_in(2) ? "127.0.0.1" : "256.0.0.1", 1);
  for (int count = 1 + random.below(3); count > 0; --count) {
    std::string value = random.one_in(2) ? any_number(random) : damaged("12", "abc", {"True", "x"}, random);
    value.erase(std::min(value.find('\0'), value.size()));
    setenv(random.of(names).c_str(), value.c_str(), 1);
  }
  for (const std::string& each : names) {
    const auto skip = [](const std::function<void()>& take) {
      try {
        take();
      } catch (const InputError& error) {
        const std::string wrong = line_problem(error.what());
        if (!wrong.empty()) throw;
      }
    };
    skip([&] { env_int(each.c_str()); });
    skip([&] { env_double(each.c_str()); });
    skip([&] { env_bool(each.c_str()); });
  }
  World::from_environment(std::chrono::milliseconds(30));
}

using Reader = void (*)(const std::string& folder, Random& random);
constexpr std::pair<const char*, Reader> kKinds[kNumKinds] = {{"recipe", recipe},
                                                              {"--set", overrides},
                                                              {"hardware", hardware},
                                                              {"profile", profile},
                                                              {"schedule", schedule},
                                                              {"text", text},
                                                              {"images", images},
                                                              {"weights", weights},
                                                              {"environment", environment},
                                                              {"JPEG", jpeg},
                                                              {"PNG", png},
                                                              {"tar", tar},
                                                              {"Parquet", parquet},
                                                              {"JSON lines", json_lines},
                                                              {"token files", token_files},
                                                              {"arrays", arrays},
                                                              {"CIFAR", cifar},
                                                              {".pt", torch_file},
                                                              {".pt2 archive", exported_archive},
                                                              {".pt2 program", exported_program},
                                                              {".pt2 weights", exported_weights}};

}  // namespace

std::string_view name(Kind kind) { return kKinds[static_cast<size_t>(kind)].first; }

std::string try_damaged(Kind kind, const std::string& folder, Random& random) {
  try {
    kKinds[static_cast<size_t>(kind)].second(folder, random);
    return {};
  } catch (const Error& error) {
    return line_problem(error.what());
  } catch (const std::exception& error) {
    return fmt::format("{}, not an error of weft's: {:.600}", typeid(error).name(), error.what());
  }
}

}  // namespace weft::fuzz
