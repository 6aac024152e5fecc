// The command `weft`: parses, chooses the subcommand, and prints an error as one line, once.
//
// Exit status: 0, 1 when the work failed, 2 when the command line makes no sense, 128 + signal when a signal ended it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/nearest.h"
#include "weft/cli/commands.h"
#include "weft/comm/lost_rank.h"
#include "weft/launch/error_pipe.h"

namespace weft {

namespace {

constexpr const char* kOutOfMemory =
    "out of memory: the process got less than it needs for what was asked; ask for less (fewer micro-batches, layers or "
    "ranks), "
    "or raise its limit (ulimit -v, the container's)";

/// Everything after the first "--" belongs to the program that `weft run` starts.
std::vector<std::string> split_program(std::vector<std::string>& arguments) {
  const auto mark = std::find(arguments.begin(), arguments.end(), "--");
  if (mark == arguments.end()) return {};
  std::vector<std::string> program(mark + 1, arguments.end());
  arguments.erase(mark, arguments.end());
  return program;
}

/// A rank that a launcher watches tells it; otherwise stderr, with the rank where there are several.
int fail(const std::string& text, Blame blame, int culprit = -1) {
  // What LibTorch throws has a stack trace below its first line.
  const std::string line = text.substr(0, text.find('\n'));
  if (report_error(line, blame, culprit)) return 1;
  const auto rank = env_string("RANK");
  std::fprintf(stderr, "weft: %s%s%s%s\n", rank ? "rank " : "", rank ? rank->c_str() : "", rank ? ": " : "", line.c_str());
  return 1;
}

/// A word where a command must stand that is none; CLI11 would only say that a command is required.
std::string unknown_command(CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0].starts_with('-')) return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::count(names.begin(), names.end(), arguments[0]) > 0) return "";
  return "unknown command '" + arguments[0] + "'; did you mean '" + nearest(arguments[0], names) + "'?";
}

int run(std::vector<std::string> arguments) {
  int status = 0;
  CLI::App app("weft trains deep models across many devices.", "weft");
  const std::vector<std::string> program = split_program(arguments);
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text());
  app.footer(
      "Examples:\n"
      "  weft train recipes/fashion_mnist.toml -n 2\n"
      "  weft show recipes/gpt.toml -n 4\n"
      "`weft COMMAND --help` tells the rest.");
  add_train(app, status);
  add_run(app, program, status);
  add_show(app, status);
  add_memory(app, status);
  add_profile(app, status);
  add_simulate(app, status);
  add_version(app);
  if (const std::string unknown = unknown_command(app, arguments); !unknown.empty()) {
    std::fprintf(stderr, "weft: %s See weft --help\n", unknown.c_str());
    return 2;
  }
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::string line = error.what();
    std::replace(line.begin(), line.end(), '\n', ' ');
    const auto chosen = app.get_subcommands();
    std::fprintf(stderr, "weft: %s; see weft %s--help\n", line.c_str(),
                 chosen.empty() ? "" : (chosen.front()->get_name() + " ").c_str());
    return 2;
  }
  return status;
}

}  // namespace

}  // namespace weft

int main(int argc, char** argv) {
  try {
    return weft::run({argv + 1, argv + argc});
  } catch (const weft::LostRank& error) {
    return weft::fail(error.what(), weft::Blame::peer, error.rank());
  } catch (const weft::CommError& error) {
    return weft::fail(error.what(), weft::Blame::peer);
  } catch (const std::bad_alloc&) {
    return weft::fail(weft::kOutOfMemory, weft::Blame::self);
  } catch (const std::length_error&) {  // a container of more than can be
    return weft::fail(weft::kOutOfMemory, weft::Blame::self);
  } catch (const std::exception& error) {
    return weft::fail(error.what(), weft::Blame::self);
  }
}
