// The peer of bench/simulation: LibTorch in an MPI program, whose gradients are averaged after backward, one MPI_Allreduce
// each, as TorchFort does. usage: mpirun -n RANKS libtorch NETWORK WEIGHTS WARMUP STEPS
#include <torch/torch.h>

#include <fstream>
#include <string>

#include "fields.h"

namespace {

torch::nn::Conv2d convolution(int64_t from, int64_t to) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1).padding_mode(torch::kCircular));
}

torch::nn::Sequential network_of(const std::string& name) {
  using namespace torch::nn;  // NOLINT
  if (name == "stencil") return Sequential(convolution(1, 1));
  if (name == "layers") return Sequential(convolution(1, 32), Tanh(), convolution(32, 32), Tanh(), convolution(32, 1));
  return Sequential(Flatten(), Linear(fields::kPoints, fields::kPoints),
                    Unflatten(UnflattenOptions(1, {1, fields::kSide, fields::kSide})));
}

void load(torch::nn::Sequential& network, const char* path) {
  std::ifstream file(path, std::ios::binary);
  const torch::NoGradGuard guard;
  for (torch::Tensor& x : network->parameters()) {
    file.read(static_cast<char*>(x.data_ptr()), static_cast<std::streamsize>(x.nbytes()));
  }
  if (!file) throw std::runtime_error(std::string(path) + " is too short");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const fields::Arguments a = fields::arguments(argc, argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  torch::set_num_threads(1);
  torch::nn::Sequential network = network_of(a.network);
  load(network, a.file);
  torch::optim::Adam adam(network->parameters(), torch::optim::AdamOptions(1e-3));
  fields::Samples samples(rank, ranks);
  const std::vector<int64_t> shape{samples.share, 1, fields::kSide, fields::kSide};

  fields::run(a, rank, [&](int step) {
    const torch::Tensor input = torch::from_blob(samples.input(step), shape),
                        target = torch::from_blob(samples.target(step), shape);
    adam.zero_grad();
    torch::Tensor loss = torch::mse_loss(network->forward(input), target);
    loss.backward();
    for (torch::Tensor& x : network->parameters()) {
      torch::Tensor gradient = x.grad();
      MPI_Allreduce(MPI_IN_PLACE, gradient.data_ptr(), static_cast<int>(gradient.numel()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      gradient /= ranks;
    }
    adam.step();
    float mean = loss.item<float>();
    MPI_Allreduce(MPI_IN_PLACE, &mean, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return static_cast<double>(mean) / ranks;
  });
  MPI_Finalize();
}
