// The command `weft`: parses, chooses the subcommand, and prints an error as one line, once.
//
// Exit status: 0; 1 when the work failed; 2 for a bad command line; 3 when `weft verify` finds a difference or `weft data
// check` finds damage; 4 when the loss is not finite; 5 when all succeeded except the copy to save.upload; 75 when a training
// was asked to stop and has saved; 128 + signal when a signal ended it.
#include <c10/util/Logging.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/environment.h"
#include "weft/base/error.h"
#include "weft/base/launcher_variables.h"
#include "weft/base/nearest.h"
#include "weft/base/printable.h"
#include "weft/base/standard_descriptors.h"
#include "weft/cli/command_table.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/options/recipe_options.h"
#include "weft/cli/output/output.h"
#include "weft/cli/ranks/stop_signals.h"
#include "weft/cli/ranks/train_here.h"
#include "weft/comm/rank_environment.h"
#include "weft/comm/store/store_errors.h"
#include "weft/launch/error_pipe.h"
#include "weft/launch/exit_status.h"

namespace weft {

namespace {

constexpr const char* kOutOfMemory =
    "out of memory: the process could not get the memory it needs; use fewer micro-batches, layers or "
    "ranks, or raise its limit (ulimit -v, the container's)";

/// Everything after the first "--" belongs to the program that `weft run` starts.
std::vector<std::string> split_program(std::vector<std::string>& arguments) {
  const auto mark = std::find(arguments.begin(), arguments.end(), "--");
  if (mark == arguments.end()) return {};
  std::vector<std::string> program(mark + 1, arguments.end());
  arguments.erase(mark, arguments.end());
  return program;
}

constexpr size_t kLongestLine = 2000;

/// "rank 1: " if this is one rank of several; otherwise empty.
std::string own_rank() {
  if (const auto rank = env_string("RANK")) return "rank " + shortened(*rank) + ": ";
  try {
    const auto mine = rank_environment();
    return mine && mine->size > 1 ? "rank " + std::to_string(mine->rank) + ": " : "";
  } catch (const Error&) {
    return "";  // the command reports that error
  }
}

/// Reports to the launcher if one watches this rank; otherwise prints to stderr, with the rank if there are several.
int fail(const std::string& text, Blame blame, int culprit = -1, int status = 1) {
  const std::string line = shortened(text, kLongestLine);
  if (report_error(line, blame, culprit, status)) return status;
  const std::string who = own_rank();
  std::fprintf(stderr, "weft: %s%s\n", who.c_str(), line.c_str());
  return status;
}

/// Message for an unknown word in the place of a command; CLI11 would only say that a command is required.
std::string unknown_command(CLI::App& app, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0].starts_with('-')) return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  if (std::count(names.begin(), names.end(), arguments[0]) > 0) return "";
  const std::string unknown = "unknown command '" + shortened(arguments[0]) + "'";
  if (arguments[0] == "help") return unknown + "; did you mean '--help'?";
  std::vector<std::string> begun;
  std::copy_if(names.begin(), names.end(), std::back_inserter(begun),
               [&](const std::string& name) { return name.starts_with(arguments[0]); });
  const std::string meant = begun.empty() ? nearest(arguments[0], names, 2) : begun.front();
  return unknown + (meant.empty() ? "." : "; did you mean '" + meant + "'?");
}

/// Finds "--summary=" without a value, usually an unset shell variable; CLI11 would take the next word as the value.
std::string empty_option(const std::vector<std::string>& arguments) {
  for (const std::string& word : arguments) {
    const size_t mark = word.find('=');
    if (word.starts_with("--") && mark + 1 == word.size()) return word.substr(0, mark);
  }
  return "";
}

/// Message for an unknown option; keys of a recipe are often mistaken for options.
std::string unknown_option(const std::vector<std::string>& arguments, const CLI::App& command) {
  const auto known = command.get_options();
  const bool takes_keys =
      std::any_of(known.begin(), known.end(), [](const auto* option) { return option->check_lname("set"); });
  for (const std::string& word : arguments) {
    const std::string name = word.substr(0, word.find('='));
    if (!name.starts_with("--") || name.size() == 2) continue;
    if (std::any_of(known.begin(), known.end(), [&](const auto* option) { return option->check_name(name); })) continue;
    const std::string meant = takes_keys ? key_of_option(name) : "";
    return "unknown option '" + shortened(name) + "'" + (meant.empty() ? "" : "; it is a recipe key: --set " + meant + "=...");
  }
  return "";
}

/// Only these commands run as ranks; they find out their rank themselves.
bool may_be_rank(const std::vector<std::string>& arguments) {
  const std::string command = arguments.empty() ? "" : arguments[0];
  for (const char* one : {"train", "run", "evaluate", "replay", "verify", "profile", "calibrate", "check", "netcheck"}) {
    if (command == one) return true;
  }
  return false;
}

/// Prints a command-line error, or help, which CLI11 also throws; returns the exit status.
int print_parse_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  if (error.get_exit_code() == 0) {  // --help, --version
    std::ostringstream text;
    app.exit(error, text, text);
    write_out(wrapped_help(text.str()));
    return 0;
  }
  const auto chosen = app.get_subcommands();
  std::string line = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !chosen.empty()) {
    if (const std::string unknown = unknown_option(arguments, *chosen.front()); !unknown.empty()) line = unknown;
  }
  std::replace(line.begin(), line.end(), '\n', ' ');
  line = shortened(line, 500);
  std::fprintf(stderr, "weft: %s; see weft %s--help\n", line.c_str(),
               chosen.empty() ? "" : (chosen.front()->get_name() + " ").c_str());
  return 2;
}

int run(std::vector<std::string> arguments) {
  int status = 0;
  if (!may_be_rank(arguments)) leave_outer_place();
  CLI::App app("weft trains deep models across many devices.", "weft");
  const std::vector<std::string> program = split_program(arguments);
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text());
  app.footer(
      "Examples:\n"
      "  weft train recipes/fashion_mnist.toml -n 2\n"
      "  weft show recipes/gpt.toml -n 4\n"
      "`weft COMMAND --help` lists a command's options.");
  add_train(app, status);
  add_run(app, program, status);
  add_evaluate(app, status);
  add_replay(app, status);
  add_watch(app, status);
  add_compare(app, status);
  add_runs(app, status);
  add_report(app, status);
  add_blame(app, status);
  add_show(app, status);
  add_memory(app, status);
  add_profile(app, status);
  add_calibrate(app, status);
  add_check(app, status);
  add_netcheck(app, status);
  add_simulate(app, status);
  add_plan(app, status);
  add_verify(app, status);
  add_study(app, status);
  add_scale(app, status);
  add_k8s(app, status);
  add_data(app, status);
  add_checkpoint(app, status);
  add_slurm(app, status);
  add_version(app);
  add_completion(app);
  add_man(app);
  add_agent(app, status);
  if (const std::string unknown = unknown_command(app, arguments); !unknown.empty()) {
    std::fprintf(stderr, "weft: %s See weft --help\n", unknown.c_str());
    return 2;
  }
  if (const std::string empty = empty_option(arguments); !empty.empty()) {
    std::fprintf(stderr, "weft: %s: empty value; leave the option out, or add a value\n", shortened(empty).c_str());
    return 2;
  }
  const std::vector<std::string> given = arguments;
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 expects them reversed
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return print_parse_error(app, error, given);
  }
  return status;
}

/// Turns every error into one line.
int run_or_report(std::vector<std::string> arguments) {
  try {
    return run(std::move(arguments));
  } catch (const LostRank& error) {
    return fail(error.what(), Blame::peer, error.rank());
  } catch (const CommError& error) {
    return fail(error.what(), Blame::peer);
  } catch (const NumericError& error) {
    return fail(error.what(), Blame::self, -1, kDiverged);
  } catch (const std::bad_alloc&) {
    return fail(kOutOfMemory, Blame::self);
  } catch (const std::length_error&) {  // a container larger than possible
    return fail(kOutOfMemory, Blame::self);
  } catch (const Error& error) {
    return fail(error.what(), Blame::self);
  } catch (const std::exception& error) {
    // LibTorch's errors have a stack trace below their first line.
    const std::string text = error.what();
    return fail(text.substr(0, text.find('\n')), Blame::self);
  }
}

}  // namespace

}  // namespace weft

int main(int argc, char** argv) {
  // First, so that files opened later cannot take the number of a closed standard stream.
  weft::open_standard_descriptors();
  weft::unblock_signals();
  weft::survive(SIGXFSZ);
  // c10d also prints, over many lines, the errors that it throws.
  if (!weft::env_string("TORCH_CPP_LOG_LEVEL")) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  weft::leave(weft::run_or_report({argv + 1, argv + argc}));
}
