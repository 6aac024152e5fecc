// Compares the three matrix products of a linear layer: LibTorch's (MKL on x86) and weft's (nn/functional/matmul.h). float32,
// one thread, the layers of a GPT at the sizes of bench/peers. GFLOP/s as JSON; `onednn`: whether weft's product uses oneDNN.
//
// The two take turns within one run; each figure is the median of its turns.
#include "weft/nn/functional/matmul.h"

#include <ATen/Parallel.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr int kTurns = 15;
constexpr double kTurnFlops = 4e9;  // a turn repeats the product up to about this many

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + kTurns / 2, values.end());
  return values[kTurns / 2];
}

struct Product {
  const char* what;
  at::Tensor out, a, b;
  bool adds;

  double flops() const { return 2.0 * static_cast<double>(a.size(0) * a.size(1) * b.size(1)); }
  void libtorch() { adds ? at::addmm_out(out, out, a, b) : at::mm_out(out, a, b); }
  void weft() const { adds ? weft::multiply_add(out, a, b) : weft::multiply(out, a, b); }
};

double gflops_of(const Product& product, const std::function<void()>& call) {
  const int repeats = std::max(1, static_cast<int>(kTurnFlops / product.flops()));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) call();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return product.flops() * repeats / seconds / 1e9;
}

std::string row(Product product) {
  std::vector<double> libtorch, weft;
  product.libtorch();
  product.weft();
  for (int turn = 0; turn < kTurns; ++turn) {
    libtorch.push_back(gflops_of(product, [&] { product.libtorch(); }));
    weft.push_back(gflops_of(product, [&] { product.weft(); }));
  }
  const double ours = median(weft), theirs = median(libtorch);
  return fmt::format(
      R"(  {{"product": "{}", "m": {}, "k": {}, "n": {}, "onednn": {}, "libtorch": {:.0f}, "weft": {:.0f}, "ratio": {:.2f}}})",
      product.what, product.a.size(0), product.a.size(1), product.b.size(1), weft::uses_onednn(product.a, product.b), theirs,
      ours, ours / theirs);
}

/// Forward and gradient products of y = x w^T with x [tokens, in] and w [out, in].
std::vector<Product> products(int64_t tokens, int64_t in, int64_t out) {
  const at::Tensor x = at::randn({tokens, in}), w = at::randn({out, in}), dy = at::randn({tokens, out});
  return {{"forward", at::zeros({tokens, out}), x, w.t(), false},
          {"input gradient", at::zeros({tokens, in}), dy, w, false},
          {"weight gradient", at::zeros({out, in}), dy.t(), x, true}};
}

}  // namespace

int main() {
  at::set_num_threads(1);
  std::string rows;
  for (const auto& [tokens, width] : {std::pair<int64_t, int64_t>{64, 256}, {512, 384}}) {
    for (const auto& [in, out] :
         {std::pair<int64_t, int64_t>{width, 3 * width}, {width, width}, {width, 4 * width}, {4 * width, width}}) {
      for (Product& product : products(tokens, in, out)) rows += (rows.empty() ? "" : ",\n") + row(std::move(product));
    }
  }
  fmt::print("[\n{}\n]\n", rows);
}
