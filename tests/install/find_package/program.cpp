// A ten-line program that uses the installed weft.
#include <ATen/ops/ones.h>

#include <iostream>

#include "weft/checked_device.h"
#include "weft/collectives.h"
#include "weft/nn/module_block.h"  // earlier names are found too
#include "weft/train/run/trainer.h"

int main() {
  const weft::Mesh mesh(weft::World(), {{"dp", 1}});
  const weft::Group group = mesh.group(mesh.axis("dp"));
  const at::Tensor ones = at::ones({3});
  group.all_reduce(ones, weft::ReduceOp::sum, "ones").wait();
  weft::checked_device::install();
  std::cout << "sum " << ones.to(at::Device("checked:1")).sum().item<float>() << "\n";
}
