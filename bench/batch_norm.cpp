// Times BatchNorm over several ranks, forward and backward, and writes its tensors. Rank 0 prints a line of JSON.
//
//   weft run -n 2 -- build/bench/batch_norm FOLDER [--samples 32] [--channels 64] [--size 32] [--rounds 30]
//
// Each rank writes its first round's tensors to FOLDER/RANK-NAME.f32, plain float32: x, dy (generated), y, dx, weight and bias
// (gradients), mean and var (running). bench/vision compares them with BatchNorm over all samples on one device, and the time
// with PyTorch's.
#include "weft/nn/images/batch_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/stopwatch.h"
#include "weft/comm/mesh.h"
#include "weft/nn/images/channels_last.h"
#include "weft/train/process/process_memory.h"

namespace {

struct Settings {
  std::string folder;
  int64_t samples = 32, channels = 64, size = 32;
  int rounds = 30;
};

void write(const Settings& settings, int rank, const std::string& name, const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().contiguous();
  std::ofstream file(fmt::format("{}/{}-{}.f32", settings.folder, rank, name), std::ios::binary);
  file.write(static_cast<const char*>(plain.const_data_ptr()), static_cast<std::streamsize>(plain.nbytes()));
  if (!file.flush()) throw weft::Error(fmt::format("cannot write to {}", settings.folder));
}

void run(const Settings& settings) {
  const weft::World world = weft::World::from_environment();
  const weft::Mesh mesh(world, {{"dp", world.size()}});
  const weft::Context context{.training = true, .batch = mesh.group(mesh.axis("dp"))};
  auto generator = at::detail::createCPUGenerator(1 + static_cast<uint64_t>(world.rank()));
  const auto image = [&] {
    return weft::channels_last(
        at::randn({settings.samples, settings.channels, settings.size, settings.size}, generator, at::kFloat));
  };
  const at::Tensor x = image().add_(0.5).requires_grad_(), dy = image();
  const weft::BatchNormState state{.weight = at::full({settings.channels}, 1.5).requires_grad_(),
                                   .bias = at::full({settings.channels}, -0.25).requires_grad_(),
                                   .running_mean = at::zeros({settings.channels}),
                                   .running_var = at::ones({settings.channels})};
  std::vector<double> seconds;
  for (int round = 0; round < settings.rounds; ++round) {
    context.batch.barrier("ready").wait();
    const weft::Stopwatch watch;
    const at::Tensor y = weft::batch_norm(x, state, context);
    torch::autograd::backward({y}, {dy});
    seconds.push_back(watch.seconds());
    if (round == 0) {
      const std::pair<const char*, at::Tensor> tensors[] = {{"x", x},
                                                            {"dy", dy},
                                                            {"y", y},
                                                            {"dx", x.grad()},
                                                            {"weight", state.weight.grad()},
                                                            {"bias", state.bias.grad()},
                                                            {"mean", state.running_mean},
                                                            {"var", state.running_var}};
      for (const auto& [name, tensor] : tensors) write(settings, world.rank(), name, tensor);
    }
    for (const at::Tensor& leaf : {x, state.weight, state.bias}) leaf.mutable_grad().reset();
  }
  std::sort(seconds.begin(), seconds.end());
  if (world.rank() == 0) {
    fmt::print("{}\n", nlohmann::json{{"ms", 1e3 * seconds[seconds.size() / 2]}, {"ranks", world.size()}}.dump());
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Times BatchNorm over ranks");
  app.add_option("folder", settings.folder, "where the first round's tensors are written")->required();
  app.add_option("--samples", settings.samples, "per rank")->check(CLI::PositiveNumber);
  app.add_option("--channels", settings.channels)->check(CLI::PositiveNumber);
  app.add_option("--size", settings.size, "image side in pixels")->check(CLI::PositiveNumber);
  app.add_option("--rounds", settings.rounds)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    at::set_num_threads(1);
    weft::keep_and_reuse_memory();
    run(settings);
  } catch (const weft::Error& error) {
    fmt::print(stderr, "batch_norm: {}\n", error.what());
    return 1;
  }
}
