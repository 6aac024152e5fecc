// Convolutions as products against LibTorch's in float64, and the choice of when to use them.
#include "weft/nn/images/window_product.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/nn/relative_error.h"
#include "weft/nn/images/channels_last.h"
#include "weft/nn/images/convolution.h"

namespace weft::window_product_test {
namespace {

struct Shape {
  int64_t samples, channels, height, width, filters, kernel, stride;
};

std::ostream& operator<<(std::ostream& out, const Shape& s) {
  return out << s.kernel << " x " << s.kernel << " at " << s.stride << " on " << s.height << " x " << s.width;
}

constexpr Shape kShapes[] = {{2, 5, 4, 3, 7, 3, 1}, {2, 5, 5, 4, 7, 3, 2}, {3, 4, 2, 2, 9, 1, 1}, {3, 4, 3, 5, 9, 1, 2},
                             {1, 3, 8, 9, 4, 7, 2}, {2, 3, 1, 1, 6, 3, 1}, {1, 2, 6, 6, 3, 5, 1}, {4, 32, 4, 4, 96, 3, 1}};

TEST(WindowProduct, IsTheConvolution) {
  for (const Shape& s : kShapes) {
    for (const bool turned : {false, true}) {
      const auto lie = [turned](const at::Tensor& x) {
        return turned ? x.contiguous(at::MemoryFormat::ChannelsLast) : x.contiguous();
      };
      const at::Tensor x = lie(at::randn({s.samples, s.channels, s.height, s.width}));
      Parameter weight{at::randn({s.filters, s.channels, s.kernel, s.kernel}), {}}, bias{at::randn({s.filters}), {}};
      weight.gradient = at::empty_like(weight.value);
      bias.gradient = at::empty_like(bias.value);

      const auto exact = [](const at::Tensor& t) { return t.to(at::kDouble).requires_grad_(); };
      const at::Tensor wide_x = exact(x), wide_weight = exact(weight.value), wide_bias = exact(bias.value);
      const at::Tensor y = at::conv2d(wide_x, wide_weight, wide_bias, s.stride, s.kernel / 2);
      const at::Tensor dy = lie(at::randn(y.sizes()));
      torch::autograd::backward({y}, {dy.to(at::kDouble)});

      EXPECT_LE(test::relative_error(window_product(x, weight.value, bias.value, s.stride), y.detach()), 1e-6) << s;
      EXPECT_LE(test::relative_error(window_input_gradient(dy, x, weight.value, s.stride), wide_x.grad()), 1e-6) << s;
      add_window_gradients(weight, &bias, dy, x, s.stride);
      EXPECT_EQ(weight.value.grad().data_ptr(), weight.gradient.data_ptr()) << s;
      EXPECT_LE(test::relative_error(weight.gradient, wide_weight.grad()), 1e-6) << s;
      add_window_gradients(weight, &bias, dy, x, s.stride);
      EXPECT_LE(test::relative_error(weight.gradient, 2 * wide_weight.grad()), 1e-6) << s << ", added";
      EXPECT_LE(test::relative_error(bias.gradient, 2 * wide_bias.grad()), 1e-6) << s << ", added";
    }
  }
}

TEST(WindowProduct, GoesOnInTheOrderOfConvolutions) {
  const at::Tensor x = at::randn({2, 4, 3, 3}), y = window_product(x, at::randn({20, 4, 3, 3}), {}, 1);
  EXPECT_TRUE(is_channels_last(y));
  EXPECT_TRUE(is_channels_last(window_input_gradient(y, x, at::randn({20, 4, 3, 3}), 1)));
}

TEST(WindowProduct, MayBeChangedInPlaceByWhoComesNext) {
  const at::Tensor x = at::randn({2, 4, 2, 2}).requires_grad_();
  Parameter weight{at::randn({16, 4, 3, 3}), at::zeros({16, 4, 3, 3})};
  at::Tensor y = convolution(x, weight, nullptr);
  EXPECT_NO_THROW(y.relu_().sum().backward());
}

TEST(WindowProduct, SuitsFewerPixelsThanFilters) {
  const at::Tensor x = at::empty({2, 4, 4, 4});
  EXPECT_EQ(suits_windows(x, at::empty({33, 4, 3, 3}), 1), is_better_channels_last(x));
  EXPECT_FALSE(suits_windows(x, at::empty({32, 4, 3, 3}), 1));
  EXPECT_EQ(suits_windows(x, at::empty({32, 4, 3, 3}), 2), is_better_channels_last(x));
  EXPECT_FALSE(suits_windows(x.to(at::kBFloat16), at::empty({33, 4, 3, 3}, at::kBFloat16), 1));
}

/// A tensor that is in both orders: LibTorch would assume the other one.
TEST(ChannelsLast, IsSeenForOneChannelToo) {
  const at::Tensor x = at::randn({2, 1, 3, 3});
  for (const at::Tensor& image : {x, at::randn({2, 3, 4, 4}), at::randn({2, 5, 1, 1})}) {
    EXPECT_EQ(is_channels_last(channels_last(image)), is_better_channels_last(image)) << image.sizes();
    EXPECT_TRUE(channels_last(image).equal(image));
  }
  EXPECT_FALSE(is_channels_last(channels_last(x.to(at::kDouble))));
}

}  // namespace
}  // namespace weft::window_product_test
