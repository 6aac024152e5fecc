// Bad input: each gets one line on stderr, a status that is not 0, and leaves no file behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "tests/cli/command.h"

namespace weft::bad_input_test {
namespace {

constexpr const char* kRecipe = R"(
model = { name = "mlp", width = 8, layers = 1 }
data = { name = "fashion-mnist" }
batch = { global = 32 }
run = { steps = 2 }
)";

class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    recipe_ = (folder_ / "r.toml").string();
    std::ofstream(recipe_) << kRecipe;
  }

  /// `line` is what stderr must begin with.
  void expect_error(const std::vector<std::string>& arguments, const std::string& line, int status = 1) {
    SCOPED_TRACE(line);
    const CommandResult result = run_weft(arguments);
    EXPECT_EQ(result.status, status);
    EXPECT_EQ(result.err.substr(0, line.size()), line) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_FALSE(processes_left());
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), files_) << "half-written";
  }

  std::vector<std::string> train(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"train", recipe_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  TemporaryFolder folder_;
  std::string recipe_;
  std::ptrdiff_t files_ = 1;
};

TEST_F(BadInput, CommandLine) {
  expect_error({}, "weft: A subcommand is required; see weft --help", 2);
  expect_error({"trian", "--help"}, "weft: unknown command 'trian'; did you mean 'train'? See weft --help", 2);
  expect_error({"train"}, "weft: recipe is required; see weft train --help", 2);
  expect_error(train({"-n", "two"}), "weft: ", 2);
  expect_error({"verify", recipe_, "--steps", "0"}, "weft: --steps: Value 0 not in range", 2);
  expect_error(train({"--unknown"}), "weft: ", 2);
  expect_error({"run", "-n", "2"}, "weft: run: no program; write it after --");
  expect_error({"show", recipe_, "--hardware", "h.toml"}, "weft: --hardware gives the times of --svg and --trace");
  expect_error(train({"--trace-step", "2"}), "weft: --trace-step requires --trace; see weft train --help", 2);
  expect_error(train({"--trace", (folder_ / "t.json").string(), "--trace-step", "3", "-n", "2"}),
               "weft: step 3 cannot be traced: the run has 2 steps");
}

TEST_F(BadInput, Recipe) {
  const std::string r = recipe_;
  expect_error({"train", "/nonexistent.toml"}, "weft: cannot read the recipe '/nonexistent.toml': No such file or directory");
  expect_error(train({"--set", "model.layer=3"}),
               "weft: --set model.layer=3: unknown key 'model.layer'; did you mean 'model.layers'?");
  expect_error(train({"--set", "run.steps=many"}), "weft: --set run.steps=many: run.steps must be an integer");
  expect_error(train({"-n", "2", "--set", "model.layer=3"}), "weft: --set model.layer=3: unknown key");
  expect_error(train({"--set", "optimizer.lr=inf"}),
               "weft: --set optimizer.lr=inf: optimizer.lr must be a finite number above 0, found inf");
  expect_error(train({"--set", "run.steps=9223372036854775807"}),
               "weft: --set run.steps=9223372036854775807: run.steps must be an integer of at least 1 and at most 1000000000");
  expect_error({"show", r, "-n", "3"},
               "weft: " + r + ": batch.global = 32 does not divide over 3 data-parallel ranks; the nearest that do: 30 or 33");
}

TEST_F(BadInput, KeysAsDeepAsAFileHasRoom) {
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  files_ = 2;
  const std::string deep = (folder_ / "deep.toml").string();
  for (const std::string& text : {key + " = 1", "[" + key + "]", "x = {" + key + " = 1}"}) {
    std::ofstream(deep) << text << '\n';
    expect_error({"show", deep}, "weft: " + deep + ": it has a dotted key of more than 256 parts");
  }
  const std::string dots(1000, '.');
  std::ofstream(deep) << kRecipe << "# " << dots << "\n[layout]\noffload_folder = \"" << dots << "\"\n";
  EXPECT_EQ(run_weft({"show", deep}).status, 0) << "dots in text are no key's";
}

TEST_F(BadInput, RanksAndMesh) {
  expect_error(train({"-n", "0"}), "weft: -n 0: the number of ranks must be at least 1");
  expect_error(train({"-n", "-2"}), "weft: ", 1);
  expect_error({"show", recipe_, "-n", "0"}, "weft: -n 0: the number of ranks must be at least 1");
  expect_error({"run", "-n", "100000", "--", "true"}, "weft: -n 100000: at most ");
  expect_error({"run", "-n", "0", "--", "true"}, "weft: -n 0: the number of ranks must be at least 1");
  expect_error(train({"-n", "3"}), "weft: " + recipe_ + ": batch.global = 32 does not divide over 3 data-parallel ranks");
  expect_error({"verify", recipe_, "-n", "3"}, "weft: " + recipe_ + ": batch.global = 32 does not divide over 3 data");
  expect_error(train({"-n", "2", "--set", "layout.dp=4"}),
               "weft: " + recipe_ + ": the mesh has 4 ranks (layout.dp = 4 x layout.shard = 1), but the world has 2");
  expect_error(train({"-n", "3", "--set", "layout.tp=2"}), "weft: " + recipe_ + ": layout.tp = 2 does not divide the 3 ranks");
}

TEST_F(BadInput, OutputPaths) {
  expect_error(train({"--summary", "/nonexistent/s.json"}),
               "weft: /nonexistent/s.json: cannot write it: the folder /nonexistent does not exist");
  expect_error(train({"-n", "2", "--save", folder_.path().string()}),
               "weft: " + folder_.path().string() + ": cannot write it: it is a folder");
  const std::string out = (folder_ / "out").string();
  expect_error(train({"--summary", ""}), "weft: --summary: the name of the file is empty; see weft train --help", 2);
  expect_error(train({"--save", out, "--summary", folder_.path().string() + "/./out"}),
               "weft: --summary and --save are the same file, ");
  expect_error({"show", recipe_, "--svg", recipe_}, "weft: the recipe and --svg are the same file, ");
  expect_error({"show", recipe_, "--svg", "/dev/null"}, "weft: /dev/null: cannot write it: it is not a regular file");
}

TEST_F(BadInput, Data) {
  const std::string folder = (folder_ / "data").string();
  expect_error(train({"--set", "data.path=/nonexistent"}), "weft: ");
  expect_error(train({"-n", "2", "--set", "data.path=/nonexistent"}), "weft: rank ");
}

TEST_F(BadInput, MissingProgram) {
  expect_error({"run", "-n", "2", "--", "/nonexistent/program"},
               "weft: cannot run '/nonexistent/program': No such file or directory");
}

}  // namespace
}  // namespace weft::bad_input_test
