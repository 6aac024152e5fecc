// What both programs of bench/simulation share: an MPI program's samples, and how its steps are timed.
#pragma once

#include <mpi.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace fields {

inline constexpr int kSide = 32, kPoints = kSide * kSide, kBatch = 16, kBatches = 32;

struct Arguments {
  const char* network;  ///< "linear", "stencil" or "layers"
  const char* file;     ///< of the network, or its weights
  int warmup, steps;
};

inline Arguments arguments(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: %s NETWORK FILE WARMUP STEPS [ADDRESS]\n", argv[0]);
    std::exit(2);
  }
  return {argv[1], argv[2], std::atoi(argv[3]), std::atoi(argv[4])};
}

/// This rank's samples of kBatches global batches: waves, and their sums of derivatives, as in TorchFort's example.
struct Samples {
  explicit Samples(int rank, int ranks) : share(kBatch / ranks) {
    const size_t count = static_cast<size_t>(kBatches * share * kPoints);
    inputs.reserve(count), targets.reserve(count);
    constexpr double kPi = 3.14159265358979;
    for (int batch = 0; batch < kBatches; ++batch) {
      for (int sample = rank * share; sample < (rank + 1) * share; ++sample) {
        const double time = 0.01 * (batch * kBatch + sample);
        for (int i = 0; i < kPoints; ++i) {
          const double x = kPi * (2.0 / kSide * (i % kSide) - 1.0 - time),
                       y = kPi * (2.0 / kSide * (i / kSide) - 1.0 - 0.789 * time);
          inputs.push_back(static_cast<float>(std::sin(x) * std::sin(y)));
          targets.push_back(static_cast<float>(kPi * std::sin(x + y)));
        }
      }
    }
  }
  float* input(int step) { return inputs.data() + static_cast<ptrdiff_t>(step % kBatches * share) * kPoints; }
  float* target(int step) { return targets.data() + static_cast<ptrdiff_t>(step % kBatches * share) * kPoints; }
  int share;
  std::vector<float> inputs, targets;
};

/// Runs the steps; rank 0 prints a JSON object. `step` returns the loss, the mean of all ranks'.
template <class Step>
void run(const Arguments& a, int rank, const Step& step) {
  double loss = 0.0;
  for (int i = 0; i < a.warmup; ++i) loss = step(i);
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = a.warmup; i < a.warmup + a.steps; ++i) loss = step(i);
  MPI_Barrier(MPI_COMM_WORLD);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  double own_mb = static_cast<double>(used.ru_maxrss) / 1024.0, mb = 0.0;
  MPI_Reduce(&own_mb, &mb, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank > 0) return;
  std::printf("{\"samples_per_s\": %.1f, \"peak_rss_mb\": %.1f, \"loss\": %.9g}\n", a.steps * kBatch / seconds.count(), mb,
              loss);
}

}  // namespace fields
