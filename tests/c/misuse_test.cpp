// Misuse of weft.h gives an error's text, never a crash: wrong handles, arrays, recipes and orders of calls.
#include <gtest/gtest.h>
#include <weft.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/c/made.h"

namespace weft::c_test {
namespace {

/// No process has such an address; a sanitizer has memory at most others.
void* const kNoMemory = reinterpret_cast<void*>(uintptr_t{1} << 62);

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

constexpr const char* kTokens = R"(
model = { name = "gpt", layers = 1, heads = 1, width = 4, context = 2, vocabulary = 8 }
batch = { global = 4 }
optimizer = { name = "sgd", lr = 0.1 }
run = { steps = 100, threads = 1 }
)";

/// What a call is given; each row of the table spoils something.
struct Call {
  Made made;
  Array<float> input{{4, 1, 4, 4}};
  Array<int64_t> target{{4}};
  Array<float> output{{4, 3}};
  int64_t shape[4] = {4, 1, 4, 4};
  int64_t strides[4] = {16, 16, 4, 1};

  int step() { return weft_trainer_step(made.trainer, &input, 1, &target, nullptr); }
  int predict() { return weft_trainer_predict(made.trainer, &input, 1, &output, 1); }
  weft_array shaped(const int64_t* sizes, const int64_t* steps) {
    weft_array array = input;
    array.shape = sizes;
    array.strides = steps;
    return array;
  }
};

struct Row {
  const char* name;
  std::function<int(Call&)> run;
  const char* text;
  int kind = WEFT_INPUT_ERROR;
};

int make(const char* recipe) {
  Made made;
  weft_trainer* trainer = nullptr;
  const int status = weft_trainer_make(made.world, recipe, nullptr, nullptr, &trainer);
  EXPECT_EQ(trainer, nullptr);
  return status;
}

const std::string kEpochs = std::string(kRecipe).replace(std::string(kRecipe).find("steps = 100"), 11, "epochs = 2");
const std::string kHugeModel =
    std::string(kRecipe).replace(std::string(kRecipe).find("layers = 1, width = 4"), 21, "layers = 3, width = 1000000");
const std::string kLong(3 << 20, '#');

weft_world* own_world = nullptr;
weft_trainer* own_trainer = nullptr;

const Row kRows[] = {
    {"null world", [](Call&) { return weft_world_place(nullptr, nullptr, nullptr); }, "world is null"},
    {"null result", [](Call&) { return weft_world_from_environment(1, nullptr); }, "world is null"},
    {"no time", [](Call&) { return weft_world_from_environment(0, &own_world); }, "timeout_s must be above 0"},
    {"nan time", [](Call&) { return weft_world_join(0, 2, "x:1", std::nan(""), &own_world); }, "timeout_s must be above 0"},
    {"negative time", [](Call&) { return weft_world_from_environment(-1e300, &own_world); }, "timeout_s must be above 0"},
    {"rank", [](Call&) { return weft_world_join(2, 2, "x:1", 1, &own_world); }, "rank 2 of 2: the rank must be from 0"},
    {"negative size", [](Call&) { return weft_world_join(0, -5, "x:1", 1, &own_world); }, "rank 0 of -5"},
    {"huge size", [](Call&) { return weft_world_join(0, 2147483647, "127.0.0.1:21221", 0.2, &own_world); }, "",
     WEFT_COMM_ERROR},
    {"null address", [](Call&) { return weft_world_join(0, 2, nullptr, 1, &own_world); }, "address is null"},
    {"address", [](Call&) { return weft_world_join(0, 2, "node0", 1, &own_world); }, "expected HOST:PORT"},
    {"port", [](Call&) { return weft_world_join(0, 2, "node0:99999", 1, &own_world); }, "expected HOST:PORT"},
    {"address that is no text", [](Call&) { return weft_world_join(0, 2, "\xff\n\x1b", 1, &own_world); }, "expected HOST:PORT"},
    {"long address", [](Call&) { return weft_world_join(0, 2, kLong.c_str(), 1, &own_world); }, "address is longer than"},
    {"missing rank", [](Call&) { return weft_world_join(0, 2, "127.0.0.1:21217", 2.0, &own_world); },
     "waits for rank 1 to start", WEFT_COMM_ERROR},
    {"null recipe", [](Call&) { return make(nullptr); }, "recipe is null"},
    {"long recipe", [](Call&) { return make(kLong.c_str()); }, "recipe is longer than 1048576 bytes"},
    {"recipe that is no text", [](Call&) { return make("\xff\xfe\n\x01"); }, "recipe"},
    {"empty recipe", [](Call&) { return make(""); }, "model.name"},
    {"huge number", [](Call&) { return make("model = { name = 'mlp', width = 99999999999999999999 }"); }, "recipe:1"},
    {"huge model", [](Call&) { return make(kHugeModel.c_str()); }, "", WEFT_MEMORY_ERROR},
    {"deep recipe", [](Call&) { return make(("a = " + std::string(400000, '[')).c_str()); }, "recipe:1"},
    {"no TOML", [](Call&) { return make("model = {"); }, "recipe:1"},
    {"unknown key", [](Call&) { return make("model = { nam = 'mlp' }"); }, "did you mean 'model.name'?"},
    {"no model", [](Call&) { return make("run = { steps = 1 }"); }, "model.name"},
    {"epochs", [](Call&) { return make(kEpochs.c_str()); }, "the run's length is in epochs"},
    {"no file",
     [](Call&) {
       return make("model = { name = 'exported', path = '/none.pt2' }\nbatch = { global = 4 }\nrun = { steps = 1 }");
     },
     "/none.pt2"},
    {"null trainer", [](Call&) { return weft_trainer_save(nullptr, "x", 0); }, "trainer is null"},
    {"world as trainer",
     [](Call& c) { return weft_trainer_share(reinterpret_cast<weft_trainer*>(c.made.world), nullptr, nullptr); },
     "not a trainer, or one that was freed"},
    {"wild trainer", [](Call&) { return weft_trainer_share(reinterpret_cast<weft_trainer*>(&own_trainer), nullptr, nullptr); },
     "not a trainer, or one that was freed"},
    {"freed trainer",
     [](Call& c) {
       weft_trainer_free(c.made.trainer);
       weft_trainer_free(c.made.trainer);
       return c.step();
     },
     "not a trainer, or one that was freed"},
    {"freed world",
     [](Call& c) {
       weft_world_free(c.made.world);
       return weft_trainer_make(c.made.world, kRecipe, nullptr, nullptr, &own_trainer);
     },
     "not a world, or one that was freed"},
    {"null inputs", [](Call& c) { return weft_trainer_step(c.made.trainer, nullptr, 1, &c.target, nullptr); },
     "inputs is null"},
    {"null target", [](Call& c) { return weft_trainer_step(c.made.trainer, &c.input, 1, nullptr, nullptr); }, "target is null"},
    {"inputs", [](Call& c) { return weft_trainer_step(c.made.trainer, &c.input, -7, &c.target, nullptr); },
     "the model takes 1"},
    {"null data", [](Call& c) { return c.input.data = nullptr, c.step(); }, "input 0: data is null"},
    {"wild data", [](Call& c) { return c.input.data = kNoMemory, c.step(); },
     "input 0: data has fewer than the 256 bytes of its shape"},
    {"unaligned", [](Call& c) { return c.input.data = static_cast<char*>(c.input.data) + 1, c.step(); },
     "input 0: data is not aligned"},
    {"null shape", [](Call& c) { return c.input.shape = nullptr, c.step(); }, "input 0: shape is null"},
    {"dims", [](Call& c) { return c.input.dims = 2147483647, c.step(); }, "input 0 has 2147483647 dimensions"},
    {"negative dims", [](Call& c) { return c.input.dims = -1, c.step(); }, "input 0 has -1 dimensions"},
    {"type", [](Call& c) { return c.input.type = 99, c.step(); }, "input 0: type 99 is none of"},
    {"integer images", [](Call& c) { return c.input.type = WEFT_INT32, c.step(); }, "input 0 is int32; it must be float32"},
    {"float labels", [](Call& c) { return c.target.type = WEFT_FLOAT64, c.step(); }, "target is float64; it must be int64"},
    {"samples", [](Call& c) { return c.input.own_shape[0] = 3, c.step(); },
     "input 0 has the shape [3, 1, 4, 4]; it must be [4, 1, 4, 4]"},
    {"size", [](Call& c) { return c.input.own_shape[3] = 3, c.step(); }, "it must be [4, 1, 4, 4]"},
    {"negative size", [](Call& c) { return c.input.own_shape[3] = -2, c.step(); }, "input 0 has the shape [4, 1, 4, -2]"},
    {"target", [](Call& c) { return c.target.own_shape[0] = 5, c.step(); }, "target has the shape [5]; it must be [4]"},
    {"negative stride",
     [](Call& c) {
       c.strides[0] = -4;
       const weft_array array = c.shaped(c.shape, c.strides);
       return weft_trainer_step(c.made.trainer, &array, 1, &c.target, nullptr);
     },
     "no memory has the shape [4, 1, 4, 4] with the strides [-4, 16, 4, 1]"},
    {"huge stride",
     [](Call& c) {
       c.strides[0] = kHuge;
       const weft_array array = c.shaped(c.shape, c.strides);
       return weft_trainer_step(c.made.trainer, &array, 1, &c.target, nullptr);
     },
     "no memory has the shape"},
    {"huge batch",
     [](Call& c) {
       c.shape[0] = kHuge;
       const weft_array array = c.shaped(c.shape, nullptr);
       return weft_trainer_predict(c.made.trainer, &array, 1, &c.output, 1);
     },
     "no memory has the shape"},
    {"large batch",
     [](Call& c) {
       c.shape[0] = int64_t{1} << 40;
       const weft_array array = c.shaped(c.shape, nullptr);
       return weft_trainer_predict(c.made.trainer, &array, 1, &c.output, 1);
     },
     "data has fewer than the 70368744177664 bytes of its shape"},
    {"negative outputs", [](Call& c) { return weft_trainer_predict(c.made.trainer, &c.input, 1, &c.output, -7); },
     "num_outputs is -7; the model has 1"},
    {"memory", [](Call& c) { return c.input.weft_array::memory = 7, c.step(); },
     "input 0: memory 7 is neither WEFT_HOST nor WEFT_DEVICE"},
    {"memory of a device", [](Call& c) { return c.input.weft_array::memory = WEFT_DEVICE, c.step(); },
     "input 0 is memory of a device, but this rank trains on the CPU"},
    {"null outputs", [](Call& c) { return weft_trainer_predict(c.made.trainer, &c.input, 1, nullptr, 1); }, "outputs is null"},
    {"outputs", [](Call& c) { return weft_trainer_predict(c.made.trainer, &c.input, 1, &c.output, 3); },
     "num_outputs is 3; the model has 1"},
    {"output", [](Call& c) { return c.output.own_shape[1] = 2, c.predict(); },
     "output 0 has the shape [4, 2]; the model's has [4, 3]"},
    {"output type", [](Call& c) { return c.output.type = WEFT_INT32, c.predict(); },
     "output 0 is int32; the model's is float32"},
    {"label", [](Call& c) { return c.target.memory[2] = 7, c.step(); }, "7"},
    {"label in an evaluation",
     [](Call& c) { return c.target.memory[2] = -1, weft_trainer_evaluate(c.made.trainer, &c.input, 1, &c.target, nullptr); },
     "-1"},
    {"no samples",
     [](Call& c) {
       Array<float> none({0, 1, 4, 4});
       Array<int64_t> target({0});
       EXPECT_EQ(weft_trainer_evaluate(c.made.trainer, &none, 1, &target, nullptr), WEFT_INPUT_ERROR);
       EXPECT_EQ(c.step(), WEFT_OK) << "it goes on";
       return weft_trainer_evaluate(c.made.trainer, &none, 1, &target, nullptr);
     },
     "input 0 has no samples to evaluate"},
    {"more samples than there is memory for",
     [](Call& c) {
       c.shape[0] = int64_t{1} << 44;
       c.strides[0] = c.strides[1] = c.strides[2] = c.strides[3] = 0;
       const weft_array array = c.shaped(c.shape, c.strides);
       return weft_trainer_evaluate(c.made.trainer, &array, 1, &c.target, nullptr);
     },
     "out of memory", WEFT_MEMORY_ERROR},
    {"not a number", [](Call& c) { return c.input.memory[0] = std::nanf(""), c.step(); }, "loss", WEFT_NUMERIC_ERROR},
    {"after a failure",
     [](Call& c) {
       c.input.memory[0] = std::nanf("");
       c.step();
       c.input.memory[0] = 1;
       return c.step();
     },
     "step", WEFT_ERROR},
    {"path that is no text", [](Call& c) { return weft_trainer_load(c.made.trainer, "/\xff\n\x1b[2J", nullptr); },
     "/\\xff\\n\\x1b[2J"},
    {"empty path", [](Call& c) { return weft_trainer_save(c.made.trainer, "", 0); }, "'' is not a folder for a checkpoint"},
    {"bucket without a folder", [](Call& c) { return weft_trainer_save(c.made.trainer, "s3://", 1); },
     "'s3://' is not a folder for a checkpoint"},
    {"half a URL", [](Call& c) { return weft_trainer_save(c.made.trainer, "s3:/bucket/x", 1); }, "is neither a URL nor a path"},
    {"empty path to load", [](Call& c) { return weft_trainer_load(c.made.trainer, "", nullptr); }, ""},
    {"folder as weights", [](Call& c) { return weft_trainer_load_weights(c.made.trainer, "/proc"); }, "/proc"},
    {"device as weights", [](Call& c) { return weft_trainer_load_weights(c.made.trainer, "/dev/zero"); }, "/dev/zero"},
    {"long path", [](Call& c) { return weft_trainer_save(c.made.trainer, std::string(100000, 'a').c_str(), 0); }, ""},
    {"null path", [](Call& c) { return weft_trainer_save(c.made.trainer, nullptr, 0); }, "path is null"},
    {"save", [](Call& c) { return weft_trainer_save(c.made.trainer, "/proc/none", 0); }, "/proc/none"},
    {"load", [](Call& c) { return weft_trainer_load(c.made.trainer, "/none", nullptr); }, "/none"},
    {"weights", [](Call& c) { return weft_trainer_load_weights(c.made.trainer, "/none"); }, "/none"},
    {"null visit", [](Call& c) { return weft_trainer_visit_weights(c.made.trainer, nullptr, nullptr); }, "visit is null"},
    {"null name", [](Call& c) { return weft_trainer_keep(c.made.trainer, nullptr, &c.input); }, "name is null"},
    {"empty name", [](Call& c) { return weft_trainer_keep(c.made.trainer, "", &c.input); }, "name"},
    {"name that is no text", [](Call& c) { return weft_trainer_keep(c.made.trainer, "\xff\n", &c.input); }, "\\xff\\n"},
    {"name of weft's", [](Call& c) { return weft_trainer_keep(c.made.trainer, "run", &c.input); }, "run"},
    {"null value", [](Call& c) { return weft_trainer_keep(c.made.trainer, "a", nullptr); }, "value is null"},
    {"kept twice",
     [](Call& c) { return weft_trainer_keep(c.made.trainer, "a", &c.input), weft_trainer_keep(c.made.trainer, "a", &c.input); },
     "a"},
    {"kept with gaps",
     [](Call& c) {
       c.strides[2] = 1, c.strides[3] = 4;
       const weft_array array = c.shaped(c.shape, c.strides);
       return weft_trainer_keep(c.made.trainer, "a", &array);
     },
     "value has gaps"},
};

TEST(Misuse, GivesAText) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    Call call;
    const int status = row.run(call);
    EXPECT_EQ(status, row.kind) << weft_last_error();
    EXPECT_NE(std::string(weft_last_error()).find(row.text), std::string::npos) << weft_last_error();
    EXPECT_EQ(std::string(weft_last_error()).find('\n'), std::string::npos) << weft_last_error();
  }
  EXPECT_EQ(own_world, nullptr);
  EXPECT_EQ(own_trainer, nullptr);
}

/// Arrays near the right ones with up to three wrong fields: no call crashes, and what is refused has a text.
TEST(Misuse, RandomArrays) {
  constexpr int64_t kSizes[] = {0, 1, 2, 3, 4, -1, int64_t{1} << 40, int64_t{1} << 62};
  constexpr int32_t kTypes[] = {WEFT_FLOAT32, WEFT_FLOAT64, WEFT_INT32, WEFT_INT64, 0, -1};
  constexpr int32_t kDims[] = {0, 1, 2, 3, 4, 5, -1, 17, 2147483647};
  Call call;
  std::vector<double> memory(1 << 16, 0.0);
  void* const places[] = {memory.data(), nullptr, reinterpret_cast<char*>(memory.data()) + 2, kNoMemory};
  std::mt19937 random(1);
  const auto any = [&random](const auto& values) { return values[random() % std::size(values)]; };
  int right = 0, wrong = 0;
  for (int i = 0; i < 4000; ++i) {
    std::vector<int64_t> shapes[3] = {{4, 1, 4, 4}, {4}, {4, 3}}, strides[3];
    const int32_t types[] = {WEFT_FLOAT32, WEFT_INT64, WEFT_FLOAT32};
    weft_array arrays[3];
    for (int j = 0; j < 3; ++j) {
      const auto dims = static_cast<int32_t>(shapes[j].size());
      shapes[j].resize(16, 1), strides[j].resize(16, 1);
      arrays[j] = {memory.data(),         shapes[j].data(), random() % 2 ? strides[j].data() : nullptr, dims, types[j],
                   int32_t(random() % 2), WEFT_HOST};
    }
    for (uint32_t spoiled = random() % 4; spoiled > 0; --spoiled) {
      const uint32_t j = random() % 3;
      const uint32_t field = random() % 5;
      if (field == 0) shapes[j][random() % 5] = any(kSizes);
      if (field == 1) strides[j][random() % 5] = any(kSizes);
      if (field == 2) arrays[j].type = any(kTypes);
      if (field == 3) arrays[j].dims = any(kDims);
      if (field == 4) arrays[j].data = any(places);
    }
    const int status = i % 3 == 0   ? weft_trainer_step(call.made.trainer, &arrays[0], 1, &arrays[1], nullptr)
                       : i % 3 == 1 ? weft_trainer_evaluate(call.made.trainer, &arrays[0], 1, &arrays[1], nullptr)
                                    : weft_trainer_predict(call.made.trainer, &arrays[0], 1, &arrays[2], 1);
    ++(status == WEFT_OK ? right : wrong);
    EXPECT_TRUE(status == WEFT_OK || *weft_last_error() != 0);
    std::fill(memory.begin(), memory.end(), 0.0);  // predictions are written there
  }
  EXPECT_GT(right, 800);
  EXPECT_GT(wrong, 800);
}

TEST(Misuse, TokensOutOfRange) {
  const Made made(kTokens);
  Array<int32_t> tokens({4, 2}, 9);
  Array<int64_t> target({4, 2}, 1);
  EXPECT_EQ(weft_trainer_step(made.trainer, &tokens, 1, &target, nullptr), WEFT_ERROR) << weft_last_error();
  EXPECT_NE(std::strstr(weft_last_error(), "block 'embedding': index out of range"), nullptr) << weft_last_error();
}

TEST(Misuse, CallsFromACallback) {
  Call call;
  const auto visit = [](void* context, const char* /*name*/, const weft_array* /*value*/) {
    auto& c = *static_cast<Call*>(context);
    EXPECT_EQ(c.step(), WEFT_INPUT_ERROR);
    EXPECT_TRUE(std::strstr(weft_last_error(), "another call is using this trainer") ||
                std::strstr(weft_last_error(), "one that was freed"))
        << weft_last_error();
    weft_trainer_free(c.made.trainer);  // it ends after this call
  };
  EXPECT_EQ(weft_trainer_visit_weights(call.made.trainer, visit, &call), WEFT_OK) << weft_last_error();
  EXPECT_EQ(call.step(), WEFT_INPUT_ERROR);
}

}  // namespace
}  // namespace weft::c_test
