// A training step as a value: built, verified and drawn without a tensor. Needs no LibTorch header.
#include "weft/program.h"

#include <iostream>

int main() {
  // Six equal blocks, with their costs per micro-batch.
  weft::ModelCost model{.name = "toy", .blocks = {}, .input_bytes = 4096};
  for (int i = 0; i < 6; ++i) {
    model.blocks.push_back({.name = "layer." + std::to_string(i),
                            .parameters = 1 << 20,
                            .numel = 1 << 20,
                            .forward_flops = 1e9,
                            .backward_flops = 2e9,
                            .saved_bytes = 8 << 20,
                            .output_bytes = 1 << 20});
  }

  // 8 replicas, 2 micro-batches each, gradients reduced in buckets of two blocks.
  weft::Program program = weft::build_program(model, {.dp = 8, .micro_batches = 2, .bucket_bytes = 8 << 20});
  weft::verify(program);
  std::cout << weft::draw(program, {.width = 80});

  // The program is plain data. Remove the waits of its last update, and verify() reports what would go wrong.
  program.lists.front().back().waits.clear();
  try {
    weft::verify(program);
  } catch (const weft::VerifyError& error) {
    std::cout << "\nWithout that wait: " << weft::name(error.defect) << "\n  " << error.what() << "\n";
    return 0;
  }
  return 1;
}
