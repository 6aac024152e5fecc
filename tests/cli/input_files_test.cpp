// Input files: anything but a regular file of a sensible length is rejected at once, in one line; errors inside a file name it;
// text from it is made safe for a terminal.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "tests/cli/training.h"
#include "weft/base/printable.h"

namespace weft::input_files_test {
namespace {

using std::string_literals::operator""s;

constexpr const char* kRecipe = R"(
model = { name = "gpt", layers = 2, heads = 2, width = 16, context = 16 }
data = { name = "text" }
batch = { global = 8, micro = 2 }
run = { steps = 2, threads = 1 }
)";

constexpr const char* kHardware = "hardware = { name = 'h', ranks_per_host = 1 }\ndevice = { flops = 1e12 }\n";

class InputFiles : public TrainingTest {
 protected:
  InputFiles() : TrainingTest(kRecipe) { mkfifo((folder_ / "fifo").c_str(), 0600); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return path(name);
  }

  /// Returns stderr: one line, printable, in little time and memory.
  std::string error_of(const std::vector<std::string>& arguments, int status = 1) const {
    const CommandResult result = run_weft(arguments, {.deadline_s = 30, .environment = {}});
    EXPECT_EQ(result.status, status) << result.err;
    EXPECT_TRUE(result.err.starts_with("weft: ") && result.err.ends_with("\n")) << result.err;
    const std::string line = result.err.substr(0, std::max<size_t>(result.err.size(), 1) - 1);
    EXPECT_EQ(line, printable(line));
    EXPECT_LT(line.size(), 2100u);
    return line;
  }

  std::vector<std::string> with(const std::string& command, const std::vector<std::string>& overrides) const {
    std::vector<std::string> arguments = {command, path("r.toml")};
    for (const std::string& one : overrides) arguments.insert(arguments.end(), {"--set", one});
    return arguments;
  }
};

TEST_F(InputFiles, OnlyRegularOnes) {
  const struct {
    std::string file, reason;
  } cases[] = {
      {path("fifo"), "it is a FIFO, not a regular file"},
      {"/dev/zero", "it is a device, not a regular file"},
  };
  for (const auto& [file, reason] : cases) {
    EXPECT_EQ(error_of({"train", file}), "weft: cannot read the recipe '" + file + "': " + reason);
    EXPECT_EQ(error_of({"evaluate", path("w"), file}), "weft: cannot read the recipe '" + file + "': " + reason);
    EXPECT_EQ(error_of({"verify", file}), "weft: cannot read the recipe '" + file + "': " + reason);
    EXPECT_EQ(error_of({"simulate", path("r.toml"), "--hardware", file}),
              "weft: cannot read the hardware file '" + file + "': " + reason);
    EXPECT_EQ(error_of(with("show", {"layout.profile=" + file})),
              "weft: cannot read the hardware file '" + file + "': " + reason);
    EXPECT_EQ(error_of(with("show", {"layout.schedule=csv", "layout.schedule_file=" + file})),
              "weft: cannot read the schedule (layout.schedule_file) '" + file + "': " + reason);
    EXPECT_EQ(error_of(with("train", {"data.path=" + file})).find("weft: " + file + ": cannot open it: " + reason), 0u);
  }
  const std::string folder = folder_.path().string();
  EXPECT_EQ(error_of({"show", folder}), "weft: cannot read the recipe '" + folder + "': it is a folder, not a regular file");
}

TEST_F(InputFiles, HugeOnesAreRefused) {
  std::ofstream(folder_ / "huge") << "#";
  std::filesystem::resize_file(folder_ / "huge", int64_t{8} << 30);
  const std::string huge = path("huge");
  EXPECT_EQ(error_of({"show", huge}), "weft: cannot read the recipe '" + huge +
                                          "': it is longer than 1.00 MiB, too long for such a file; name another one");
  EXPECT_NE(error_of({"simulate", path("r.toml"), "--hardware", huge}).find("it is longer than 8.00 MiB"), std::string::npos);
  EXPECT_NE(error_of(with("show", {"layout.schedule=csv", "layout.schedule_file=" + huge})).find("it is longer than 64.0 MiB"),
            std::string::npos);
}

TEST_F(InputFiles, MistakesNameTheFileTheyAreIn) {
  const std::string csv = write("s.csv", "F0.0,B0.0\nX1.0\n"), four = write("four.csv", "F0.0,B0.0\n");
  for (const char* ranks : {"1", "2"}) {
    std::vector<std::string> arguments =
        with("show", {"layout.pp="s + ranks, "layout.schedule=csv", "layout.schedule_file=" + csv});
    arguments.insert(arguments.end(), {"-n", ranks});
    EXPECT_EQ(error_of(arguments).find("weft: " + csv + ": schedule csv, row of rank 1, cell 1: 'X1.0' is not a task"), 0u);
  }
  std::vector<std::string> arguments = with("show", {"layout.pp=2", "layout.schedule=csv", "layout.schedule_file=" + four});
  arguments.insert(arguments.end(), {"-n", "2"});
  EXPECT_EQ(error_of(arguments).find("weft: " + four + ": schedule csv: the text has 1 row and 1 micro-batch, the run 2"), 0u);

  const std::string unknown = write("unknown.toml", std::string(kHardware) + "devise = 1\n");
  const std::string block = write("block.toml", std::string(kHardware) + "[[block]]\nname = 'hiden'\nforward_s = 1\n");
  const std::string micro = write("micro.toml", std::string(kHardware) + "measured = { micro_batch = 3 }\n");
  const std::string links = write("links.toml", kHardware);
  for (const char* ranks : {"1", "2"}) {
    std::vector<std::string> profiled = with("show", {"layout.pp="s + ranks, "layout.profile=" + block});
    profiled.insert(profiled.end(), {"-n", ranks});
    EXPECT_EQ(error_of(profiled).find("weft: " + block + ": hardware 'h': [[block]] gives times of block"), 0u);
  }
  EXPECT_EQ(error_of({"simulate", path("r.toml"), "--hardware", micro})
                .find("weft: " + micro + ": hardware 'h': its times are for micro-batches of 3 samples"),
            0u);
  EXPECT_EQ(error_of({"simulate", path("r.toml"), "-n", "2", "--hardware", links})
                .find("weft: " + links + ": hardware 'h' has no inter_host"),
            0u);
}

TEST_F(InputFiles, NextToDataAreReported) {
  std::filesystem::create_directories(folder_ / "corpus/.ipynb_checkpoints");
  std::filesystem::copy_file(folder_ / "text", folder_ / "corpus/a.txt");
  write("corpus/logo.png", "\x89PNG\r\n\x1a\n");
  const CommandResult result = run_weft(with("train", {"data.path=" + path("corpus")}), {.deadline_s = 60, .environment = {}});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string reported = "data: skipped 2 files or folders: " + path("corpus/.ipynb_checkpoints") + " (hidden); " +
                               path("corpus/logo.png") + " (a PNG image)";
  EXPECT_NE((result.out + result.err).find(reported), std::string::npos) << result.out << result.err;
  const std::string pointer = write("pointer.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n");
  EXPECT_EQ(error_of(with("train", {"data.path=" + pointer})),
            "weft: " + pointer +
                ": it is a Git LFS pointer, not the file itself, but text is expected; fetch it with `git lfs pull`");
}

TEST_F(InputFiles, TheirContentIsPrintedSafely) {
  const std::string evil = "\x1b[2J\x1b]0;title\x07 \n\xff\xfe \xc2\x9b";
  EXPECT_NE(error_of({"train", evil}).find("\\x1b[2J"), std::string::npos);
  error_of({evil}, 2);
  error_of({"train", path("r.toml"), evil}, 2);
  error_of({"train", path("r.toml"), "--set", evil});
  error_of({"train", path("r.toml"), "--set", "data.path=" + evil});
  error_of({"train", path("r.toml"), "--save", path("r.toml") + "/" + evil});
  error_of({"run", "-n", "1", "--", evil});
  for (const std::string& text : {"a\0b = 1"s, "\x1b[2J = 1"s, "'\xff' = 1"s, "model = '\x9b'"s, "\"\\u001b[2J\" = 1"s,
                                  "\"\\n\\u0000x\" = 1"s, "model = { name = \"\\u0007\\u0000\" }"s}) {
    error_of({"show", write("evil.toml", text)});
    error_of({"simulate", path("r.toml"), "--hardware", write("evil_hardware.toml", text)});
  }
  error_of({"simulate", path("r.toml"), "--hardware",
            write("named.toml",
                  "device = { flops = 1 }\nhardware = { ranks_per_host = 1, name = \"\\u001b[2J\\n\" }\n"
                  "measured = { micro_batch = 3 }\n")});
  error_of(with("show", {"layout.schedule=csv", "layout.schedule_file=" + write("evil.csv", "F0.0,\x1b[2J\0\xff\n"s)}));
}

TEST_F(InputFiles, NamesArePrintedSafely) {
  const std::string named = path("r\x1b[2J\n.toml");
  std::filesystem::copy(folder_ / "r.toml", named);
  const std::string hardware =
      write("h.toml", "device = { flops = 1e12 }\nhardware = { ranks_per_host = 1, name = \"\\u001b[2J\" }\n");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"show", named},
                                             {"memory", named},
                                             {"simulate", named, "--hardware", hardware},
                                             {"train", named, "-n", "1", "--set", "data.path=" + path("text")}}) {
    const CommandResult result = run_weft(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(result.out.find_first_of("\x1b\a"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("r\\x1b[2J\\n.toml"), std::string::npos) << result.out;
  }
}

TEST_F(InputFiles, LongValuesAreShortened) {
  const std::string value(3000, 'v');
  const std::vector<std::vector<std::string>> commands = {
      {"train", value},
      {"train", path("r.toml"), "--set", value},
      {"train", path("r.toml"), "--set", "model." + value + "=1"},
      {"train", path("r.toml"), "--set", "run.steps=" + value},
      {"train", path("r.toml"), "--set", "layout.stages=" + value},
      {"train", path("r.toml"), "--set", "data.path=" + value},
      {"train", path("r.toml"), "--save", value},
      {"show", write("key.toml", value + " = 1")},
      {"show", write("value.toml", "model = { name = '" + value + "' }")},
      with("show", {"layout.schedule=csv", "layout.schedule_file=" + write("long.csv", value)}),
      {"run", "-n", "1", "--", value},
  };
  for (const std::vector<std::string>& arguments : commands) {
    EXPECT_EQ(error_of(arguments).find(value), std::string::npos);
  }
  EXPECT_LT(error_of({value}, 2).size(), 700u);
  EXPECT_LT(error_of({"train", path("r.toml"), value}, 2).size(), 700u);
}

TEST_F(InputFiles, DataTruncatedWhileReadIsNamed) {
  const pid_t run = start_weft(train({"-n", "1", "--set", "run.steps=1000000"}), folder_.path());
  for (int i = 0; i < 3000 && read_text(folder_ / "out").find("loss") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::filesystem::resize_file(folder_ / "text", 0);
  EXPECT_EQ(wait_for(run, 30.0), 1);
  const std::string error = read_text(folder_ / "err");
  EXPECT_EQ(error.find("weft: " + path("text") + ": truncated while in use"), 0u) << error;
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 1) << error;
}

}  // namespace
}  // namespace weft::input_files_test
