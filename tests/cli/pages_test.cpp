// Output made from the command tables: shell completion, manual pages, help that fits a terminal; also shipped recipes and
// hardware files, by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/command.h"

namespace weft::pages_test {
namespace {

TEST(WeftCompletion, OffersCommandsOptionsRecipesAndTheirKeys) {
  const std::pair<std::string, std::string> cases[] = {
      {"weft tr", "train"},
      {"weft checkpoint sh", "show"},
      {"weft train g", "gpt"},
      {"weft train gpt --resume-a", "--resume-anyway"},
      {"weft train gpt --set run.see", "run.seed="},
      {"weft simulate gpt --hardware h100_n", "h100_node"},
      {"weft train gpt --summary g", ""},  // a file name, which bash completes
      {"weft run -n 2 -- ./program --re", ""},
      {"weft k8s gpt --gp", "--gpus"},
      {"weft ag", ""},  // an internal command
  };
  std::string script = "source <(" WEFT_COMMAND " completion bash)\n", expected;
  for (const auto& [words, offered] : cases) {
    script += "COMP_WORDS=(" + words + ") COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _weft_words; echo \"" + words +
              ": ${COMPREPLY[*]}\"\n";
    expected += words + ": " + offered + "\n";
  }
  EXPECT_EQ(run_weft({"run", "-n", "1", "--", "/bin/bash", "-c", script}).out, expected);
  const CommandResult zsh = run_weft({"completion", "zsh"});
  EXPECT_TRUE(zsh.out.starts_with("#compdef weft\n")) << zsh.out;
  EXPECT_EQ(run_weft({"completion", "csh"}).status, 2);
}

TEST(WeftMan, WritesAPageForEachCommand) {
  const TemporaryFolder folder;
  const CommandResult result = run_weft({"man", (folder / "pages").string()});
  EXPECT_EQ(result.status, 0) << result.err;
  const std::string all = read_text(folder / "pages" / "weft.1"), train = read_text(folder / "pages" / "weft-train.1");
  EXPECT_NE(all.find("\n.TP\n.B train\nTrain the model of a recipe\n"), std::string::npos) << all;
  EXPECT_EQ(all.find("\n.B agent\n"), std::string::npos) << all;
  for (const char* part : {".TH WEFT\\-TRAIN 1 ", ".SH NAME\nweft\\-train \\- Train the model of a recipe\n.SH SYNOPSIS\n",
                           "\n.B \\-n, \\-\\-ranks TEXT\n", ".SS Several hosts\n", "\n(environment variable: WEFT_NODES)\n",
                           "\n  weft train recipes/fashion_mnist.toml \\-n 2\n"}) {
    EXPECT_NE(train.find(part), std::string::npos) << part << train;
  }
  EXPECT_NE(read_text(folder / "pages" / "weft-checkpoint-list.1").find("\n.BR weft\\-checkpoint (1)\n"), std::string::npos);
}

/// Names of all documented commands, such as "checkpoint list", from their manual pages.
std::vector<std::string> commands() {
  const TemporaryFolder folder;
  EXPECT_EQ(run_weft({"man", folder.path().string()}).status, 0);
  std::vector<std::string> names;
  for (const auto& page : std::filesystem::directory_iterator(folder.path())) {
    std::string name = page.path().stem().string().substr(std::string("weft").size());
    std::replace(name.begin(), name.end(), '-', ' ');
    names.push_back(name.empty() ? name : name.substr(1));
  }
  return names;
}

TEST(WeftHelp, FitsEightyColumnsAndHasAnExampleIfItTakesRanks) {
  int with_ranks = 0;
  for (const std::string& command : commands()) {
    SCOPED_TRACE("weft " + command);
    std::vector<std::string> asked;
    std::istringstream words(command);
    for (std::string word; words >> word;) asked.push_back(word);
    asked.emplace_back("--help");
    const CommandResult result = run_weft(asked);
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_FALSE(result.out.empty());
    std::istringstream help(result.out);
    for (std::string line; std::getline(help, line);) EXPECT_LE(line.size(), 80U) << line;
    if (result.out.find("-n,--ranks") == std::string::npos) continue;
    ++with_ranks;
    EXPECT_NE(result.out.find("Example"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("  weft " + command), std::string::npos) << result.out;
  }
  EXPECT_GE(with_ranks, 13);
}

TEST(WeftHelp, ShowsWhatAnOptionTakes) {
  struct Case {
    const char *command, *shows, *lacks;
  };
  for (const auto& [command, shows, lacks] :
       {Case{"compare", "weft compare [OPTIONS] run...\n", "(2x)"}, Case{"train", "--set KEY=VALUE  ", "--set TEXT"},
        Case{"runs", "--where KEY=VALUE  ", "--where TEXT"}}) {
    const std::string help = run_weft({command, "--help"}).out;
    EXPECT_NE(help.find(shows), std::string::npos) << help;
    EXPECT_EQ(help.find(lacks), std::string::npos) << help;
  }
}

TEST(ShippedRecipes, AreFoundByName) {
  const TemporaryFolder folder;
  const CommandOptions elsewhere{.prepare = [&] { std::filesystem::current_path(folder.path()); }};
  const CommandResult by_name = run_weft({"memory", "gpt", "-n", "2"}, elsewhere);
  EXPECT_EQ(by_name.status, 0) << by_name.err;
  EXPECT_NE(by_name.out.find("recipes/gpt.toml"), std::string::npos) << by_name.out;
  const CommandResult hardware = run_weft({"simulate", "gpt", "--hardware", "h100_node"}, elsewhere);
  EXPECT_EQ(hardware.status, 0) << hardware.err;
  const CommandResult wrong = run_weft({"train", "gtp"}, elsewhere);
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.err.find("'gtp' is neither a file here nor one of weft's own recipes; did you mean 'gpt'? Available: "),
            std::string::npos)
      << wrong.err;
  EXPECT_NE(run_weft({"train", "gtp.toml"}, elsewhere).err.find("cannot read the recipe 'gtp.toml'"), std::string::npos);
  EXPECT_EQ(run_weft({"train", "recipes/gpt.toml"}, elsewhere).err,
            "weft: cannot read 'recipes/gpt.toml': No such file or directory; write 'gpt' for the one that weft ships\n");
  EXPECT_NE(run_weft({"simulate", "gpt", "--hardware", "hardware/h100_node.toml"}, elsewhere).err.find("write 'h100_node'"),
            std::string::npos);
}

}  // namespace
}  // namespace weft::pages_test
