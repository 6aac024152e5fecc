// What a device would be given by a step of a GPT, counted on the checked device: operators (launches), waits of the host,
// bytes copied between host and device, waits of streams; per rank and step, once the run is steady; and the peak of memory of
// the rank that has most, beside its forecast. JSON; bench/device_counts runs it.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/randint.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/device/recorded_graph.h"
#include "weft/checked_device.h"
#include "weft/comm/c10d/device_engines.h"
#include "weft/comm/c10d/operations.h"
#include "weft/plan/forecast.h"
#include "weft/recipe.h"
#include "weft/recipe/build/build_model.h"
#include "weft/recipe/build/build_optimizer.h"
#include "weft/train/run/options_of_recipe.h"
#include "weft/trainer.h"

namespace {

using nlohmann::json;

struct Model {
  std::string name = "gpt";
  int64_t layers = 4, width = 128, heads = 4, context = 128, micro = 8, micro_batches = 1;
};

struct Layout {
  const char* name;
  int ranks;
  const char* keys;
};

constexpr Layout kLayouts[] = {{"one", 1, ""},
                               {"dp", 2, ""},
                               {"zero-3", 2, R"(shard_level = "parameters")"},
                               {"pp", 2, R"(pp = 2, schedule = "1f1b")"},
                               {"tp", 2, "tp = 2"}};
constexpr int kWarmUp = 3, kSteps = 2;
constexpr int64_t kTokens = 256;

weft::Recipe recipe_of(const Model& model, const Layout& layout) {
  const bool is_pipeline = layout.name == std::string("pp");
  const int64_t data_ranks = is_pipeline || layout.name == std::string("tp") ? 1 : layout.ranks;
  const int64_t micro_batches = is_pipeline ? std::max<int64_t>(model.micro_batches, layout.ranks) : model.micro_batches;
  return weft::parse_recipe(fmt::format(R"(
    model = {{ name = "{}", layers = {}, heads = {}, width = {}, context = {} }}
    data = {{ name = "text", path = "none.txt" }}
    batch = {{ global = {}, micro = {} }}
    layout = {{ {} }}
    optimizer = {{ name = "adamw", lr = 1e-3, clip = 1.0 }}
    run = {{ steps = {}, threads = 1, timeout_s = 60 }}
  )",
                                        model.name, model.layers, model.heads, model.width, model.context,
                                        model.micro * micro_batches * data_ranks, model.micro, layout.keys, kWarmUp + kSteps),
                            "device_counts");
}

void register_engine() {
  const auto connect = [](const weft::DeviceEngineOptions& o) {
    auto engine = weft::checked_device::make_nccl_rules(
        o.store, o.rank, o.size, o.device,
        {.name = o.name, .ranks = o.ranks, .timeout = o.timeout, .starts = &weft::call_mutex()});
    engine->eagerConnectSingleDevice(o.device);
    return engine;
  };
  weft::register_device_engine(at::kPrivateUse1, {connect});
  weft::register_device_graphs(at::kPrivateUse1, weft::make_recorded_graph);
}

weft::Batch batch_of(const weft::Recipe& recipe, int64_t samples) {
  const at::Generator generator = at::detail::createCPUGenerator(1);  // the same on all ranks
  const at::Tensor tokens = at::randint(kTokens, {samples, recipe.model.context + 1}, generator, at::kLong);
  return {{tokens.narrow(1, 0, recipe.model.context).contiguous().pin_memory()},
          tokens.narrow(1, 1, recipe.model.context).contiguous().pin_memory(),
          0};
}

struct Counted {
  std::map<std::string, weft::checked_device::Counts> by_label;
  std::map<std::string, uint64_t> waits, launches;
  size_t peak_bytes = 0;
};

/// Runs the steps on one rank; rank 0 returns what all were counted after the warm-up.
Counted run_rank(const weft::Recipe& recipe, const weft::World& world, std::barrier<>& together) {
  const weft::ResolvedLayout layout = weft::resolve(recipe, world.size());
  const at::Device device(at::kPrivateUse1, static_cast<at::DeviceIndex>(world.rank()));
  const weft::checked_device::OwnDevice own(world.rank());
  weft::Trainer trainer(weft::Mesh(world, weft::mesh_axes(layout)), weft::build_model(recipe.model),
                        weft::optimizer_of(recipe.optimizer), weft::trainer_options(recipe, layout, device));
  const weft::Batch batch = batch_of(recipe, layout.micro_batch);
  for (int step = 0; step < kWarmUp + kSteps; ++step) {
    if (step == kWarmUp) {
      together.arrive_and_wait();
      if (world.rank() == 0) weft::checked_device::reset_counts();
      weft::checked_device::reset_peak_memory(world.rank());
      together.arrive_and_wait();
    }
    trainer.submit([&batch] { return batch; });
    while (trainer.unsettled() > (trainer.reads_late() ? 1 : 0)) trainer.settle();
  }
  together.arrive_and_wait();
  Counted counted;
  if (world.rank() == 0) {
    counted = {weft::checked_device::counts(), weft::checked_device::synchronisations(), weft::checked_device::launches()};
    for (int rank = 0; rank < world.size(); ++rank) {
      counted.peak_bytes = std::max(counted.peak_bytes, weft::checked_device::memory(rank).peak_allocated);
    }
  }
  together.arrive_and_wait();  // before anything is released
  return counted;
}

/// The same on all ranks, each a thread.
Counted run_layout(const weft::Recipe& recipe, const Layout& layout) {
  std::barrier<> together(layout.ranks);
  Counted found;
  std::vector<std::jthread> threads;
  for (const weft::World& world : weft::World::threads(layout.ranks)) {
    threads.emplace_back([&, world] {
      try {
        Counted own = run_rank(recipe, world, together);
        if (world.rank() == 0) found = std::move(own);
      } catch (const std::exception& error) {
        std::cerr << fmt::format("{}: {}\n", layout.name, error.what()) << std::flush;
        std::_Exit(1);  // other ranks still wait
      }
    });
  }
  threads.clear();  // joins them
  return found;
}

/// Launches of a captured step.
double captured_launches(weft::Recipe recipe, const Layout& layout) {
  recipe.run.graph = true;
  uint64_t launches = 0;
  for (const auto& [label, counts] : run_layout(recipe, layout).by_label) launches += counts.launches;
  return static_cast<double>(launches) / (static_cast<double>(kSteps) * layout.ranks);
}

json counted(const Model& model, const Layout& layout) {
  const weft::Recipe recipe = recipe_of(model, layout);
  const Counted found = run_layout(recipe, layout);
  weft::checked_device::Counts total;
  for (const auto& [label, counts] : found.by_label) {
    total.launches += counts.launches;
    total.synchronisations += counts.synchronisations;
    total.stalls += counts.stalls;
    total.copied_bytes += counts.copied_bytes;
    total.copies += counts.copies;
    total.stream_waits += counts.stream_waits;
    total.allocations += counts.allocations;
  }
  const double steps = static_cast<double>(kSteps) * layout.ranks;
  const auto each = [steps](uint64_t count) { return static_cast<double>(count) / steps; };
  const auto by_name = [&each](const std::map<std::string, uint64_t>& counts) {
    json all;
    for (const auto& [name, count] : counts) all[name] = each(count);
    return all;
  };
  return {{"layout", layout.name},
          {"ranks", layout.ranks},
          {"launches", each(total.launches)},
          {"captured_launches", captured_launches(recipe, layout)},
          {"waits", each(total.synchronisations)},
          {"stalls", each(total.stalls)},
          {"copies", each(total.copies)},
          {"copied_bytes", each(total.copied_bytes)},
          {"stream_waits", each(total.stream_waits)},
          {"allocations", each(total.allocations)},
          {"peak_bytes", found.peak_bytes},
          {"forecast_bytes", weft::recipe_memory(recipe, layout.ranks).estimate().total()},
          {"waits_by", by_name(found.waits)},
          {"launches_by", by_name(found.launches)}};
}

}  // namespace

int main(int argc, char** argv) {
  Model model;
  CLI::App app("Counts what a step of a model gives a device");
  app.add_option("--model", model.name, "gpt or llama");
  app.add_option("--layers", model.layers);
  app.add_option("--width", model.width);
  app.add_option("--heads", model.heads);
  app.add_option("--context", model.context);
  app.add_option("--micro", model.micro, "Samples of a micro-batch");
  app.add_option("--micro-batches", model.micro_batches, "Micro-batches of a rank's step");
  CLI11_PARSE(app, argc, argv);
  weft::checked_device::install({.devices = 2});
  register_engine();
  json layouts = json::array();
  for (const Layout& layout : kLayouts) layouts.push_back(counted(model, layout));
  std::cout << json{{"layouts", layouts}}.dump(2) << '\n';
}
