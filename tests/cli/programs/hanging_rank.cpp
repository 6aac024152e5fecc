// Trains a small model whose block "layer.2" hangs on one rank in its third step:
//     hanging_rank FOLDER BACKEND sleep|spin|skip|differ RANK
// skip: the rank makes a call of its own there. differ: it makes another call than the others do, after the steps.
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "weft/base/error.h"
#include "weft/collectives.h"
#include "weft/layers.h"
#include "weft/trainer.h"

namespace {

[[gnu::noinline]] void sleep_for_ever() {
  while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
}

[[gnu::noinline]] void spin_for_ever() {
  volatile bool ends = false;
  while (!ends) {
  }
}

class Hanging : public weft::Block {
 public:
  Hanging(std::string way, weft::Group group) : way_(std::move(way)), group_(std::move(group)), linear_(4, 4) {}
  weft::Tensors forward(const weft::Tensors& inputs, const weft::Context& context) override {
    if (context.step == 2 && way_ == "sleep") sleep_for_ever();
    if (context.step == 2 && way_ == "spin") spin_for_ever();
    if (context.step == 2 && way_ == "skip") group_.all_reduce(at::ones({3}), weft::ReduceOp::sum, "own").wait();
    return {linear_(inputs.front())};
  }
  std::vector<weft::ParamSpec> parameters() override {
    std::vector<weft::ParamSpec> specs;
    linear_.describe(specs, "linear");
    return specs;
  }

 private:
  std::string way_;
  weft::Group group_;
  weft::Linear linear_;
};

weft::LossValue squared_error(const weft::Tensors& outputs, const at::Tensor& target) {
  return {outputs.front().sub(target).square().sum(), target.numel()};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  try {
    const std::string way = argv[3];
    const int hanging = std::stoi(argv[4]);
    const weft::World world = weft::World::from_environment();
    const weft::Mesh mesh(world, {{"dp", world.size()}});
    weft::TrainerOptions options{.global_batch = 4 * world.size(), .micro_batch = 2};
    options.communication.backend = std::string(argv[2]) == "gloo" ? weft::BackendKind::gloo : weft::BackendKind::automatic;
    options.communication.timeout = std::chrono::milliseconds(2000);
    options.evidence = std::make_shared<weft::EvidenceWriter>(world, argv[1]);
    const weft::Group group = mesh.group(mesh.axis("dp"), options.communication);
    weft::Model model{.name = "hanging", .loss = squared_error};
    for (int i = 0; i < 4; ++i) {
      const std::string name = "layer." + std::to_string(i), own = i == 2 && world.rank() == hanging ? way : "";
      model.blocks.push_back({.name = name, .prefix = name, .block = std::make_shared<Hanging>(own, group)});
    }
    weft::Trainer trainer(mesh, model, weft::AdamW{.lr = 0.003}, options);
    const weft::Batch batch{.inputs = {at::ones({4, 4})}, .target = at::zeros({4, 4})};
    for (int step = 0; step < 4; ++step) trainer.step(batch);
    const int64_t elements = world.rank() == hanging ? 3 : 5;
    options.evidence->explain([&] { group.all_reduce(at::ones({elements}), weft::ReduceOp::sum, "own").wait(); });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
