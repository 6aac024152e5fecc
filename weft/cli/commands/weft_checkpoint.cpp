// weft checkpoint: lists, shows, verifies and compares checkpoints, and exports weights from them. Needs no ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/units.h"
#include "weft/checkpoint/atomic_file.h"
#include "weft/checkpoint/format/checkpoint_folder.h"
#include "weft/checkpoint/format/compare_checkpoints.h"
#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/model_options.h"
#include "weft/checkpoint/safetensors_header.h"
#include "weft/checkpoint/storage/open_storage.h"
#include "weft/cli/commands/commands.h"
#include "weft/cli/output/output.h"
#include "weft/cli/output/output_files.h"
#include "weft/train/save/run_state.h"

namespace weft {

namespace {

struct CheckpointArguments {
  std::string path, other, output;
  std::vector<std::string> paths;
  bool ema = false;
};

constexpr int kDiffer = 3;  ///< exit status of `diff` for differing checkpoints

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// Text such as "run 'gpt', epoch 1.50, 12 min, loss 2.0723, evaluation loss 2.1042".
std::string state_text(const CheckpointIndex& index, const std::string& path) {
  const auto text = run_state_in(index.texts);
  if (!text) return "";
  const RunState state = parse_run_state(*text, path);
  if (is_of_program(state)) {
    return fmt::format("{}saved by a program after step {:.0f}",
                       state.name.empty() ? "" : fmt::format("run '{}', ", state.name), state.clock.steps);
  }
  std::string line = fmt::format("run '{}', epoch {:.2f}, {}, loss {:.4f}", state.name, state.clock.epochs,
                                 format_duration(state.clock.seconds), state.loss);
  if (state.evaluation && static_cast<double>(state.evaluation->step) == state.clock.steps) {
    line += fmt::format(", evaluation loss {:.4f}", state.evaluation->loss);
    if (state.evaluation->accuracy) line += fmt::format(", accuracy {:.2f} %", *state.evaluation->accuracy * 100.0);
  }
  return line;
}

void list(const std::string& folder) {
  const std::unique_ptr<Storage> storage = open_storage(folder);
  std::string text;
  if (is_complete(*storage, "")) {
    throw InputError(
        fmt::format("{}: this is a checkpoint; use `weft checkpoint show`, or list the folder that contains it", folder));
  }
  for (const std::string& name : storage->list("")) {
    if (storage->is_not_a_folder(name)) continue;
    if (!is_complete(*storage, name)) {
      if (checkpoint_step(name)) text += fmt::format("{}  incomplete: being saved, or its writer was killed\n", name);
      continue;
    }
    try {
      const CheckpointIndex index = read_checkpoint(*storage, name);
      text += fmt::format("{}  {:>9}  {}\n", printable(name), format_bytes(index.bytes()),
                          printable(state_text(index, storage->full(name))));
    } catch (const InputError& error) {
      text += fmt::format("{}  {}\n", printable(name), error.what());
    }
  }
  if (text.empty()) throw InputError(fmt::format("{}: no checkpoint found", folder));
  write_out(text);
}

void show(const std::string& path) {
  const SavedCheckpoint checkpoint(path);
  const CheckpointIndex& index = checkpoint.index();
  std::string text = fmt::format("{}: {} in {}, {}\n", printable(checkpoint.path()), format_bytes(index.bytes()),
                                 counted(static_cast<int64_t>(index.files.size()), "file"),
                                 counted(static_cast<int64_t>(index.tensors.size()), "tensor"));
  if (const std::string state = state_text(index, checkpoint.path()); !state.empty()) text += printable(state) + "\n";
  for (const auto& [name, entry] : index.texts) {
    if (name != "registered" && name != kBuffersEntry) text += fmt::format("{}: {}\n", printable(name), printable(entry));
  }
  size_t width = 0;
  for (const auto& [name, stored] : index.tensors) width = std::max(width, printable(name).size());
  for (const auto& [name, stored] : index.tensors) {
    text += fmt::format("  {:<{}}  {:<8} {:<20} {}\n", printable(name), width, safetensors_type(stored.type),
                        shape_text(stored.shape), counted(static_cast<int64_t>(stored.pieces.size()), "piece"));
  }
  write_out(text);
}

void verify(const std::string& path) {
  SavedCheckpoint checkpoint(path);
  checkpoint.check();
  write_out(fmt::format("{}: complete: {} in {}, all checksums match\n", checkpoint.path(),
                        format_bytes(checkpoint.index().bytes()),
                        counted(static_cast<int64_t>(checkpoint.index().tensors.size()), "tensor")));
}

int diff(const std::string& first, const std::string& second) {
  SavedCheckpoint a(first), b(second);
  const CheckpointDifference difference = compare_checkpoints(a, b);
  std::string text;
  for (const TensorDifference& d : difference.differences) {
    text += d.only.empty()
                ? fmt::format("{}: {} of {} elements differ, by at most {:.3g} (largest value of the first: {:.3g})\n",
                              printable(d.name), d.elements, d.numel, d.largest, d.scale)
                : fmt::format("{}: {}\n", printable(d.name), d.only);
  }
  const auto differ = static_cast<int64_t>(difference.differences.size());
  text += fmt::format("{} and {}: {} of {} differ\n", a.path(), b.path(), differ, counted(difference.tensors, "tensor"));
  write_out(text);
  return differ == 0 ? 0 : kDiffer;
}

std::vector<ModelOption> options_of(const SavedCheckpoint& checkpoint) {
  const auto entry = checkpoint.index().texts.find(kModelEntry);
  return entry == checkpoint.index().texts.end() ? std::vector<ModelOption>()
                                                 : parse_model_options(entry->second, checkpoint.path());
}

void export_weights(const std::string& path, const std::string& output, bool ema) {
  check_weights_name("the file", output);
  check_writable(output);
  SavedCheckpoint checkpoint(path);
  const std::vector<NamedTensor> weights = ema ? read_average(checkpoint) : read_weights(checkpoint);
  save_safetensors(output, weights, weights_metadata(options_of(checkpoint)));
  write_out(fmt::format("{}: the {} of {}{}\n", output, counted(static_cast<int64_t>(weights.size()), "weight tensor"),
                        checkpoint.path(), ema ? ", averaged" : ""));
}

void average(const std::vector<std::string>& paths, const std::string& output) {
  check_weights_name("the file", output);
  check_writable(output);
  std::vector<SavedCheckpoint> checkpoints;
  checkpoints.reserve(paths.size());
  for (const std::string& path : paths) checkpoints.emplace_back(path);
  const std::vector<ModelOption> options = options_of(checkpoints.front());
  for (const SavedCheckpoint& other : checkpoints) {
    const std::vector<std::string> lines = option_differences(options, options_of(other));
    if (lines.empty()) continue;
    throw InputError(fmt::format("{} and {}: {}; averaging needs one model", checkpoints.front().path(), other.path(),
                                 fmt::join(lines, "; ")));
  }
  save_safetensors(output, average_weights(checkpoints), weights_metadata(options));
  write_out(
      fmt::format("{}: the mean of the weights of {}\n", output, counted(static_cast<int64_t>(paths.size()), "checkpoint")));
}

}  // namespace

void add_checkpoint(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("checkpoint", "List, verify, compare and average checkpoints; export weights");
  command->require_subcommand(1);
  auto arguments = std::make_shared<CheckpointArguments>();
  const char* what = "Checkpoint folder or URL, or a folder of checkpoints (the newest is used)";
  CLI::App* listing = command->add_subcommand("list", "List the checkpoints in a folder");
  listing->add_option("folder", arguments->path, "Folder or URL with checkpoints")->required();
  listing->callback([arguments] { list(arguments->path); });
  CLI::App* showing = command->add_subcommand("show", "Print what a checkpoint contains");
  showing->add_option("checkpoint", arguments->path, what)->required();
  showing->callback([arguments] { show(arguments->path); });
  CLI::App* verifying = command->add_subcommand("verify", "Read and check every byte of a checkpoint");
  verifying->add_option("checkpoint", arguments->path, what)->required();
  verifying->callback([arguments] { verify(arguments->path); });
  CLI::App* differing = command->add_subcommand("diff", "Compare two checkpoints; exit status 3 if they differ");
  differing->add_option("first", arguments->path, what)->required();
  differing->add_option("second", arguments->other, "Checkpoint to compare with")->required();
  differing->callback([arguments, &status] { status = diff(arguments->path, arguments->other); });
  CLI::App* exporting = command->add_subcommand("export", "Write a checkpoint's weights to a .safetensors file");
  exporting->add_option("checkpoint", arguments->path, what)->required();
  add_output(*exporting, "file", arguments->output, "Output file (.safetensors)")->required();
  exporting->add_flag("--ema", arguments->ema, "Export the averaged weights (optimizer.ema)");
  exporting->callback([arguments] { export_weights(arguments->path, arguments->output, arguments->ema); });
  CLI::App* averaging = command->add_subcommand("average", "Write the mean of several checkpoints' weights");
  averaging->add_option("checkpoints", arguments->paths, "Checkpoints to average")->required();
  add_output(*averaging, "-o,--output", arguments->output, "Output file (.safetensors)")->required();
  averaging->callback([arguments] { average(arguments->paths, arguments->output); });
  command->footer(
      "Examples:\n"
      "  weft checkpoint list runs/a\n"
      "  weft checkpoint diff runs/a/step-00000500 runs/b/step-00000500\n"
      "  weft checkpoint export runs/a weights.safetensors\n"
      "  weft checkpoint export runs/a average.safetensors --ema\n"
      "  weft checkpoint average runs/a/step-00000400 runs/a/step-00000500 \\\n"
      "    -o mean.safetensors");
  for (CLI::App* part : command->get_subcommands({})) part->footer("See docs/checkpoints.md.");
}

}  // namespace weft
