// Ranks on a mesh with two axes, and collectives along one or both: weft run -n 4 -- build/examples/collectives
#include "weft/collectives.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <iostream>
#include <sstream>

int main() {
  const weft::World world = weft::World::from_environment();
  const int columns = world.size() % 2 == 0 ? 2 : 1;
  // Outermost first: ranks 0 and 1 are neighbours in a row, ranks 0 and 2 in a column.
  const weft::Mesh mesh(world, {{"row", world.size() / columns}, {"column", columns}});

  // Every rank makes the same groups in the same order; `along` holds the ranks of this rank's own row.
  const weft::Group along = mesh.group(mesh.axis("column"));
  const weft::Group all = mesh.group(mesh.join({"row", "column"}));

  // Each call carries a name: if ranks disagree, the error on every rank shows both sides' calls.
  const at::Tensor sum = at::full({1}, world.rank(), at::kFloat);
  along.all_reduce(sum, weft::ReduceOp::sum, "sum of my row").wait();

  const at::Tensor ranks = at::zeros({world.size()}, at::kLong);
  weft::Work work = all.all_gather(ranks, at::full({1}, world.rank(), at::kLong), "everybody's rank");
  work.wait();  // other work may come before this line

  // Memory that the group owns: collectives on it need no copy first.
  const at::Tensor gradients = all.allocate(1 << 16, at::kFloat, "gradients");
  gradients.fill_(1.0);
  all.all_reduce(gradients, weft::ReduceOp::sum, "gradients").wait();

  std::ostringstream line;  // one write per rank, so that lines do not mix
  line << "rank " << world.rank() << " at (" << mesh.coordinate("row") << ", " << mesh.coordinate("column") << "), over "
       << all.backend() << ": my row's sum " << sum.item<float>() << ", ranks 0 to " << ranks[-1].item<int64_t>()
       << ", gradient " << gradients[0].item<float>() << ", sent " << all.traffic().bytes << " bytes\n";
  std::cout << line.str();
}
