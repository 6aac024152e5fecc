// weft in an MPI program, through weft.h. usage: mpirun -n RANKS weft NETWORK FILE.pt2 WARMUP STEPS HOST:PORT
#include <weft.h>

#include <string>

#include "fields.h"

namespace {

void check(int status) {
  if (status == WEFT_OK) return;
  std::fprintf(stderr, "%s\n", weft_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const fields::Arguments a = fields::arguments(argc, argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::string recipe =
      "model = { name = 'exported', path = '" + std::string(a.file) +
      "', inputs = 'arrays', loss = 'mean_squares' }\nbatch = { global = " + std::to_string(fields::kBatch) +
      " }\noptimizer = { name = 'adamw', lr = 1e-3, weight_decay = 0.0 }\nrun = { steps = 1, threads = 1 }\n";
  weft_world* world = nullptr;
  weft_trainer* trainer = nullptr;
  check(weft_world_join(rank, ranks, argc > 5 ? argv[5] : "127.0.0.1:29500", 60.0, &world));
  check(weft_trainer_make(world, recipe.c_str(), nullptr, nullptr, &trainer));
  fields::Samples samples(rank, ranks);
  const int64_t shape[] = {samples.share, 1, fields::kSide, fields::kSide};
  const auto array = [&shape](float* data) {
    return weft_array{data, shape, nullptr, 4, WEFT_FLOAT32, /*borrowed=*/1, WEFT_HOST};
  };

  fields::run(a, rank, [&](int step) {
    const weft_array input = array(samples.input(step)), target = array(samples.target(step));
    weft_step result;
    check(weft_trainer_step(trainer, &input, 1, &target, &result));
    return result.loss;
  });
  weft_trainer_free(trainer);
  weft_world_free(world);
  MPI_Finalize();
}
