// The subcommands of `weft`: each adds itself to the parser and, if chosen, leaves its exit status in `status`.
//
// They throw the errors of weft/base/error.h; main() prints the error, once.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace weft {

void add_agent(CLI::App& app, int& status);
void add_train(CLI::App& app, int& status);
/// Adds `weft run`; `program` holds the words after "--" on the command line.
void add_run(CLI::App& app, const std::vector<std::string>& program, int& status);
void add_evaluate(CLI::App& app, int& status);
void add_replay(CLI::App& app, int& status);
void add_show(CLI::App& app, int& status);
void add_profile(CLI::App& app, int& status);
void add_calibrate(CLI::App& app, int& status);
void add_check(CLI::App& app, int& status);
void add_netcheck(CLI::App& app, int& status);
void add_memory(CLI::App& app, int& status);
void add_simulate(CLI::App& app, int& status);
void add_plan(CLI::App& app, int& status);
void add_verify(CLI::App& app, int& status);
void add_study(CLI::App& app, int& status);
void add_scale(CLI::App& app, int& status);
void add_k8s(CLI::App& app, int& status);
void add_data(CLI::App& app, int& status);
void add_checkpoint(CLI::App& app, int& status);
void add_slurm(CLI::App& app, int& status);
void add_watch(CLI::App& app, int& status);
void add_blame(CLI::App& app, int& status);
void add_compare(CLI::App& app, int& status);
void add_runs(CLI::App& app, int& status);
void add_report(CLI::App& app, int& status);
void add_version(CLI::App& app);
void add_completion(CLI::App& app);
void add_man(CLI::App& app);

/// The text of `weft --version`: "weft 0.1.0, LibTorch 2.11.0".
std::string version_text();
/// weft's version and how it was built: "weft 0.1.0 (Release, GNU 12.2.0, without CUDA)".
std::string build_text();

}  // namespace weft
