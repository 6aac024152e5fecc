// Wild pointers in every argument of weft.h are errors, not crashes.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <weft.h>

#include <algorithm>
#include <functional>
#include <string>

#include "tests/c/made.h"

namespace weft::c_pointers_test {
namespace {

using c_test::Array;
using c_test::kRecipe;
using c_test::Made;

struct Arguments {
  Made made;
  Array<float> input{{4, 1, 4, 4}};
  Array<int64_t> target{{4}};
  Array<float> output{{4, 3}};
};

struct Row {
  const char* name;
  std::function<int(Arguments&, void*)> run;
};

template <class T>
T* as(void* wild) {
  return static_cast<T*>(wild);
}
int step(Arguments& a) { return weft_trainer_step(a.made.trainer, &a.input, 1, &a.target, nullptr); }

const Row kRead[] = {
    {"address", [](Arguments&, void* p) { return weft_world_join(0, 1, as<char>(p), 1, as<weft_world*>(&p)); }},
    {"recipe", [](Arguments& a,
                  void* p) { return weft_trainer_make(a.made.world, as<char>(p), nullptr, nullptr, as<weft_trainer*>(&p)); }},
    {"input 0",
     [](Arguments& a, void* p) { return weft_trainer_step(a.made.trainer, as<weft_array>(p), 1, &a.target, nullptr); }},
    {"target",
     [](Arguments& a, void* p) { return weft_trainer_step(a.made.trainer, &a.input, 1, as<weft_array>(p), nullptr); }},
    {"target",
     [](Arguments& a, void* p) { return weft_trainer_evaluate(a.made.trainer, &a.input, 1, as<weft_array>(p), nullptr); }},
    {"output 0", [](Arguments& a, void* p) { return weft_trainer_predict(a.made.trainer, &a.input, 1, as<weft_array>(p), 1); }},
    {"input 0: shape", [](Arguments& a, void* p) { return a.input.shape = as<int64_t>(p), step(a); }},
    {"input 0: strides", [](Arguments& a, void* p) { return a.input.strides = as<int64_t>(p), step(a); }},
    {"target: shape", [](Arguments& a, void* p) { return a.target.shape = as<int64_t>(p), step(a); }},
    {"output 0: shape",
     [](Arguments& a, void* p) {
       a.output.shape = as<int64_t>(p);
       return weft_trainer_predict(a.made.trainer, &a.input, 1, &a.output, 1);
     }},
    {"path", [](Arguments& a, void* p) { return weft_trainer_save(a.made.trainer, as<char>(p), 0); }},
    {"path", [](Arguments& a, void* p) { return weft_trainer_load(a.made.trainer, as<char>(p), nullptr); }},
    {"path", [](Arguments& a, void* p) { return weft_trainer_load_weights(a.made.trainer, as<char>(p)); }},
    {"name", [](Arguments& a, void* p) { return weft_trainer_keep(a.made.trainer, as<char>(p), &a.input); }},
    {"value", [](Arguments& a, void* p) { return weft_trainer_keep(a.made.trainer, "x", as<weft_array>(p)); }},
};

const Row kWritten[] = {
    {"world", [](Arguments&, void* p) { return weft_world_join(0, 1, "127.0.0.1:1", 1, as<weft_world*>(p)); }},
    {"world", [](Arguments&, void* p) { return weft_world_from_environment(1, as<weft_world*>(p)); }},
    {"rank", [](Arguments& a, void* p) { return weft_world_place(a.made.world, as<int>(p), nullptr); }},
    {"size", [](Arguments& a, void* p) { return weft_world_place(a.made.world, nullptr, as<int>(p)); }},
    {"trainer",
     [](Arguments& a, void* p) { return weft_trainer_make(a.made.world, kRecipe, nullptr, nullptr, as<weft_trainer*>(p)); }},
    {"first", [](Arguments& a, void* p) { return weft_trainer_share(a.made.trainer, as<int64_t>(p), nullptr); }},
    {"count", [](Arguments& a, void* p) { return weft_trainer_share(a.made.trainer, nullptr, as<int64_t>(p)); }},
    {"result",
     [](Arguments& a, void* p) { return weft_trainer_step(a.made.trainer, &a.input, 1, &a.target, as<weft_step>(p)); }},
    {"result", [](Arguments& a,
                  void* p) { return weft_trainer_evaluate(a.made.trainer, &a.input, 1, &a.target, as<weft_evaluation>(p)); }},
    {"step", [](Arguments& a, void* p) { return weft_trainer_load(a.made.trainer, "/none", as<int64_t>(p)); }},
};

const Row kReadOnly[] = {
    {"output 0: data",
     [](Arguments& a, void* p) {
       a.output.data = p;
       return weft_trainer_predict(a.made.trainer, &a.input, 1, &a.output, 1);
     }},
    {"value: data",
     [](Arguments& a, void* p) {
       a.output.data = p;
       return weft_trainer_keep(a.made.trainer, "x", &a.output);
     }},
};

template <size_t n>
void expect_errors(const Row (&rows)[n], void* wild, const std::string& text) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    Arguments arguments;
    EXPECT_EQ(row.run(arguments, wild), WEFT_INPUT_ERROR);
    const std::string said = weft_last_error();
    EXPECT_NE(said.find(": " + std::string(row.name) + text), std::string::npos) << said;
  }
}

TEST(Pointers, AreAskedFor) {
  // No process has the first address; a sanitizer has memory at most others.
  void* const none = reinterpret_cast<void*>(uintptr_t{1} << 62);
  const size_t page = 4096;
  auto* const pages = static_cast<char*>(mmap(nullptr, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(mprotect(pages + page, page, PROT_NONE), 0);
  expect_errors(kRead, none, " is no memory that can be read");
  expect_errors(kRead, pages + page, " is no memory that can be read");
  expect_errors(kWritten, none, " is no memory that can be written");
  expect_errors(kWritten, pages, " is no memory that can be written");
  expect_errors(kReadOnly, pages, " is no memory that can be written");
  munmap(pages, 2 * page);
}

TEST(Pointers, AreAskedForInEachCall) {
  const size_t page = 4096;
  void* const memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Arguments arguments;
  arguments.input.data = memory;
  EXPECT_EQ(step(arguments), WEFT_OK) << weft_last_error();
  munmap(memory, page);
  EXPECT_EQ(step(arguments), WEFT_INPUT_ERROR);
  EXPECT_STREQ(weft_last_error(), "weft_trainer_step: input 0: data has fewer than the 256 bytes of its shape");
}

TEST(Pointers, TextsEndAtAPage) {
  const size_t page = 4096;
  auto* const pages = static_cast<char*>(mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  std::fill(pages, pages + 2 * page, '#');
  ASSERT_EQ(mprotect(pages + 2 * page, page, PROT_NONE), 0);
  const Made made;
  weft_trainer* trainer = nullptr;
  char* const recipe = pages + 10;
  EXPECT_EQ(weft_trainer_make(made.world, recipe, nullptr, nullptr, &trainer), WEFT_INPUT_ERROR);
  EXPECT_STREQ(weft_last_error(), "weft_trainer_make: recipe is no memory that can be read");
  pages[page] = '\n';  // after a comment
  const std::string text = kRecipe;
  std::copy(text.begin(), text.end(), pages + page + 1);
  pages[2 * page - 1] = '\0';
  EXPECT_EQ(weft_trainer_make(made.world, recipe, nullptr, nullptr, &trainer), WEFT_OK) << weft_last_error();
  weft_trainer_free(trainer);
  munmap(pages, 3 * page);
}

}  // namespace
}  // namespace weft::c_pointers_test
