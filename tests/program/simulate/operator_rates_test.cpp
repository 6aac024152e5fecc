// Times of operators by the rates of their classes, computed by hand, and rates in hardware files.
#include "weft/program/simulate/operator_rates.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"
#include "weft/program/simulate/operator_time.h"

namespace weft::operator_rates_test {
namespace {

OperatorWork product(ProductForm form, int64_t rows, int64_t columns, int64_t inner, int window = 1) {
  return {.kind = OperatorKind::product, .form = form, .window = window, .rows = rows, .columns = columns, .inner = inner};
}

TEST(OperatorRates, EveryFormOfAnOperatorHasAClassAndALoad) {
  constexpr double kFilters = 4.0 * 9 * 8 * 16,
                   kImages = 4.0 * 100 * (8 + 16);  // 9 positions, 8 channels, 16 filters, 100 pixels
  struct Case {
    OperatorWork work;
    OperatorClass of;
    double bytes, extra;
  };
  const Case cases[] = {
      {product(ProductForm::plain, 10, 20, 30), OperatorClass::product, 4.0 * (300 + 600 + 200), 0},
      {product(ProductForm::turned, 10, 20, 30), OperatorClass::weight_product, 4.0 * (300 + 600 + 200), 0},
      {product(ProductForm::convolution, 100, 16, 72, 9), OperatorClass::convolution, kImages, kFilters},
      {product(ProductForm::image, 100, 72, 16, 9), OperatorClass::convolution_image, kImages, kFilters},
      {product(ProductForm::filters, 16, 72, 100, 9), OperatorClass::convolution_filters, kImages, kFilters},
      {product(ProductForm::convolution, 100, 16, 8), OperatorClass::pointwise, kImages, kFilters / 9},
      {product(ProductForm::image, 100, 8, 16), OperatorClass::pointwise_image, kImages, kFilters / 9},
      {product(ProductForm::filters, 16, 8, 100), OperatorClass::pointwise_filters, kImages, kFilters / 9},
      {{.of = MemoryClass::norm, .is_backward = true, .bytes = 80, .elements = 10}, OperatorClass::norm_backward, 80, 0},
      {{.of = MemoryClass::embedding, .bytes = 80, .elements = 10}, OperatorClass::embedding, 80, 0},
      {{.bytes = 80, .elements = 10}, OperatorClass::other, 80, 0},
  };
  for (const Case& x : cases) {
    SCOPED_TRACE(kOperatorClasses.of(x.of));
    EXPECT_EQ(class_of(x.work), x.of);
    const OperatorLoad load = load_of(x.work);
    EXPECT_DOUBLE_EQ(load.bytes, x.bytes);
    EXPECT_DOUBLE_EQ(load.extra, x.extra);
    EXPECT_DOUBLE_EQ(load.work, x.work.kind == OperatorKind::product ? x.work.flops() : 10.0);
  }
}

TEST(OperatorRates, CausalAttentionComputesWholeTiles) {
  const OperatorWork work{.kind = OperatorKind::attention,
                          .is_causal = true,
                          .batch = 2,
                          .rows = 128,
                          .columns = 128,
                          .inner = 32,
                          .heads = 3,
                          .kv_heads = 3};
  const OperatorLoad load = load_of(work);
  EXPECT_DOUBLE_EQ(load.extra, 2 * 3 * 3.0 * 64 * 64) << "three of four tiles";
  EXPECT_DOUBLE_EQ(load.work, 4.0 * 32 * load.extra);
  EXPECT_DOUBLE_EQ(load.bytes, 2.0 * 4 * 2 * (3 * 128 + 3 * 128) * 32);
}

TEST(OperatorRates, AnOperatorTakesTheSumOfItsTerms) {
  const OperatorRates rates{.near_bytes = 1000,
                            .of = {{.of = "other", .start_s = 1, .byte_s = 0.01, .far_byte_s = 0.1},
                                   {.of = "convolution", .work_s = 2, .extra_s = 3}}};
  EXPECT_DOUBLE_EQ(rated_seconds({.bytes = 500}, rates, "x"), 6.0);
  EXPECT_DOUBLE_EQ(rated_seconds({.bytes = 1500}, rates, "x"), 66.0);
  EXPECT_DOUBLE_EQ(rated_seconds(OperatorClass::other, 500, 4, rates, "x"), 6.0);
  EXPECT_DOUBLE_EQ(rated_seconds(product(ProductForm::convolution, 1, 1, 9, 9), rates, "x"), 2 * 18 + 3 * 36);
  EXPECT_EQ(rated_seconds(product(ProductForm::convolution, 0, 1, 9, 9), rates, "x"), 0.0);
}

TEST(OperatorRates, AClassWithoutARateIsRefused) {
  const OperatorRates rates{.of = {{.of = "other"}}};
  for (const OperatorWork& work : {product(ProductForm::plain, 1, 1, 1), OperatorWork{.element_bytes = 2, .bytes = 1}}) {
    EXPECT_THROW(rated_seconds(work, rates, "hardware 'x'"), InputError);
  }
}

TEST(OperatorRates, BytesCostTimeAlsoWithoutALaunchOfTheirOwn) {
  Hardware hardware{.kind = "cpu"};
  hardware.operators.emplace();
  hardware.operators->rates.of = {{.of = "other", .start_s = 1.0, .byte_s = 2.0}};
  EXPECT_EQ(memory_bound_seconds(10.0, 0, hardware), 21.0);
  EXPECT_EQ(memory_bound_seconds(10.0, 2, hardware), 22.0);
  EXPECT_EQ(memory_bound_seconds(0.0, 0, hardware), 0.0);
}

TEST(OperatorRates, WhatCannotBeARateIsRefused) {
  for (const OperatorRates& rates :
       {OperatorRates{.of = {{.of = "othr"}}}, OperatorRates{.of = {{.of = "other"}, {.of = "other"}}},
        OperatorRates{.of = {{.of = "other", .byte_s = -1}}}, OperatorRates{.of = {{.of = "other", .element_bytes = 3}}},
        OperatorRates{.near_bytes = -1.0, .of = {{.of = "other"}}},
        OperatorRates{.near_bytes = kFree, .of = {{.of = "other"}}}}) {
    EXPECT_THROW(check_rates(rates, "hardware 'x'"), InputError);
  }
  EXPECT_NO_THROW(check_rates({.of = {{.of = "other"}, {.of = "other", .element_bytes = 2}}}, "x"));
}

}  // namespace
}  // namespace weft::operator_rates_test
