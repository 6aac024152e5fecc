// Bad input: each case prints one line on stderr, returns a nonzero status, and leaves no file behind.
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

  /// `line` is the expected start of stderr.
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
  expect_error({"eval", recipe_}, "weft: unknown command 'eval'; did you mean 'evaluate'? See weft --help", 2);
  expect_error({"help"}, "weft: unknown command 'help'; did you mean '--help'? See weft --help", 2);
  expect_error({"resume"}, "weft: unknown command 'resume'. See weft --help", 2);
  expect_error(train({"--lr", "0.1"}),
               "weft: unknown option '--lr'; it is a recipe key: --set optimizer.lr=...; see weft train", 2);
  expect_error(train({"--batch-size=8"}), "weft: unknown option '--batch-size'; it is a recipe key: --set batch.global=...;",
               2);
  expect_error(train({"--summary=", "--prefix"}), "weft: --summary: empty value; leave the option out", 2);
  expect_error(train({"--node-rank=-1"}), "weft: --node-rank", 2);
  expect_error(train({"--health-port", "9999", "--health-address", ""}), "weft: --health-address: the address is empty", 2);
  expect_error(train({"--save", "w.pt"}), "weft: --save w.pt: weft writes safetensors");
  expect_error({"train"}, "weft: recipe is required; see weft train --help", 2);
  expect_error({"evaluate"}, "weft: weights is required; see weft evaluate --help", 2);
  expect_error({"evaluate", recipe_, "-n", "0"}, "weft: ", 2);
  expect_error(train({"-n", "two"}), "weft: ", 2);
  expect_error({"check", "-n", "0"}, "weft: -n 0: the number of ranks must be at least 1");
  expect_error({"check", "-n", "2", "--device", "gpu"}, "weft: --device: run.device must be one of \"auto\", \"cpu\", ");
  expect_error({"check", "--timeout", "nan"}, "weft: --timeout: Value nan is not a number", 2);
  expect_error({"verify", recipe_, "--steps", "0"}, "weft: --steps: Value 0 not in range", 2);
  expect_error(train({"--unknown"}), "weft: ", 2);
  expect_error({"run", "-n", "2"}, "weft: run: no program; give it after --");
  expect_error({"show", recipe_, "--hardware", "h.toml"}, "weft: --hardware is only for the times in --svg and --trace");
  for (const char* option : {"--host-timeout", "--join-timeout", "--grow-after", "--health-stalled"}) {
    expect_error({"train", recipe_, "-n", "2", option, "nan"}, "weft: " + std::string(option) + ": Value nan is not a number",
                 2);
    expect_error({"train", recipe_, "-n", "2", option, "inf"}, "weft: " + std::string(option) + ": Value inf not in range", 2);
  }
  expect_error(train({"--trace-step", "2"}), "weft: --trace-step requires --trace; see weft train --help", 2);
  expect_error(train({"--trace", (folder_ / "t.json").string(), "--trace-step", "3", "-n", "2"}),
               "weft: step 3 cannot be traced: the run has 2 steps");
  expect_error(train({"--profile", "1-x"}),
               "weft: --profile: '1-x' is not a step, such as 5, or the first and the last, such as 5-7");
  expect_error(train({"--profile", "2-3", "-n", "2"}), "weft: step 3 cannot be profiled: the run has 2 steps");
}

TEST_F(BadInput, OptionsWithoutEffect) {
  const struct {
    std::vector<std::string> arguments;
    std::string says;
    int status = 1;
  } rows[] = {
      {train({"--remote-weft", "/w"}), "--remote-weft is for --hosts and --host-file"},
      {train({"-n", "2", "--ssh-option", "Port=1"}), "--ssh-option is for --hosts and --host-file"},
      {train({"-n", "2", "--head-address", "a"}), "--head-address is for --hosts and --host-file"},
      {{"run", "-n", "1", "--remote-weft", "/w", "--", "true"}, "--remote-weft is for --hosts and --host-file"},
      {train({"-n", "2", "--host-timeout", "5"}), "--host-timeout is for several hosts"},
      {train({"--join-timeout", "5"}), "--join-timeout is for several hosts"},
      {train({"-n", "1", "--nodes", "1", "--node-rank", "7"}), "--node-rank 7 with --nodes 1: node ranks count from 0"},
      {train({"-n", "2", "--grow-after", "5"}), "--grow-after needs a range of ranks"},
      {train({"-n", "1:2", "--restarts", "1", "--grow-after", "5"}), "--grow-after: the run must save before it tries more"},
      {train({"--prefix"}), "--prefix applies to ranks started from here"},
      {train({"--resume-anyway"}), "--resume-anyway: there is nothing to resume from"},
      {train({"-n", "2", "--health-address", "0.0.0.0"}), "--health-address requires --health-port", 2},
      {{"check", "-n", "2", "--host-timeout", "5"}, "--host-timeout is for several hosts"},
      {{"netcheck", "-n", "2", "--hardware", recipe_}, "--hardware requires --output", 2},
      {{"k8s", recipe_, "--nodes", "1", "-n", "1", "--image", "w", "--storage-class", "fast"},
       "--storage-class requires --storage",
       2},
      {{"show", recipe_, "--rank", "0", "--width", "80"}, "--rank excludes --width", 2},
  };
  for (const auto& row : rows) expect_error(row.arguments, "weft: " + row.says, row.status);
  const CommandResult joined = run_weft(train({"--restarts", "2"}), {.environment = {{"RANK", "0"}, {"WORLD_SIZE", "1"}}});
  EXPECT_EQ(joined.status, 1);
  EXPECT_EQ(joined.err.find("weft: rank 0: --restarts applies to ranks that weft starts"), 0u) << joined.err;
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

TEST_F(BadInput, DeeplyNestedKeys) {
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
  EXPECT_EQ(run_weft({"show", deep}).status, 0) << "dots in text are not part of a key";
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
