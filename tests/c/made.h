// A trainer and arrays for the tests of weft.h.
#pragma once

#include <gtest/gtest.h>
#include <weft.h>

#include <type_traits>
#include <utility>
#include <vector>

namespace weft::c_test {

inline constexpr const char* kRecipe = R"(
model = { name = "mlp", layers = 1, width = 4, image_size = 4, classes = 3 }
batch = { global = 4 }
optimizer = { name = "sgd", lr = 0.1 }
run = { steps = 100, threads = 1 }
)";

/// A world of one rank and a trainer.
struct Made {
  explicit Made(const char* recipe = kRecipe, weft_log log = nullptr, void* context = nullptr) {
    EXPECT_EQ(weft_world_join(0, 1, "127.0.0.1:1", 10, &world), WEFT_OK) << weft_last_error();
    EXPECT_EQ(weft_trainer_make(world, recipe, log, context, &trainer), WEFT_OK) << weft_last_error();
  }
  ~Made() {
    weft_trainer_free(trainer);
    weft_world_free(world);
  }
  weft_world* world = nullptr;
  weft_trainer* trainer = nullptr;
};

/// An array with its memory.
template <class T>
struct Array : weft_array {
  explicit Array(std::vector<int64_t> sizes, T value = T(1)) : weft_array{}, own_shape(std::move(sizes)) {
    size_t count = 1;
    for (const int64_t size : own_shape) count *= static_cast<size_t>(size);
    memory.assign(count, value);
    data = memory.data();
    shape = own_shape.data();
    dims = static_cast<int32_t>(own_shape.size());
    type = std::is_same_v<T, float>     ? WEFT_FLOAT32
           : std::is_same_v<T, double>  ? WEFT_FLOAT64
           : std::is_same_v<T, int32_t> ? WEFT_INT32
                                        : WEFT_INT64;
  }
  std::vector<int64_t> own_shape;
  std::vector<T> memory;
};

}  // namespace weft::c_test
