#include "weft/train/trainer/checkpoint_state.h"

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/printable.h"
#include "weft/base/storage_error.h"
#include "weft/base/units.h"
#include "weft/checkpoint/format/data_reader.h"
#include "weft/checkpoint/format/saved_checkpoint.h"
#include "weft/checkpoint/model_options.h"
#include "weft/optim/state_meaning.h"
#include "weft/train/trainer/buffer_state.h"
#include "weft/train/trainer/checkpoint_misfits.h"
#include "weft/train/trainer/owned_state.h"
#include "weft/train/trainer/taken_state.h"

namespace weft {
namespace {

using StateJson = nlohmann::ordered_json;

constexpr const char* kTrainerEntry = "trainer";
constexpr const char* kLossEntry = "loss";
constexpr const char* kRegisteredEntry = "registered";
constexpr const char* kMeanings = "optimizer_state";  // in the trainer's entry

WriteShare share_of(const TrainerState& trainer) {
  const Mesh& mesh = trainer.mesh;
  const bool sharded = trainer.program->shards > 1;
  const Axis replicas = sharded ? mesh.join({"dp", "cp"}) : mesh.join({"dp", "shard", "cp"});
  return {.replica = replicas.index, .replicas = replicas.size(), .tp = mesh.coordinate("tp"), .tps = mesh.size("tp")};
}

StateJson text_of(const CheckpointIndex& index, const char* entry, const std::string& where) {
  const auto found = index.texts.find(entry);
  if (found == index.texts.end()) throw DamageError(fmt::format("{}: it has no entry \"{}\"", where, entry));
  return StateJson::parse(found->second);
}

/// The numbers of a step's state. Names every member of a struct, so that a new one does not compile until it is saved too.
StateJson scaling_json(const LossScale& scaling) {
  const auto& [scale, good_steps, skipped_steps] = scaling;
  return {{"scale", scale}, {"good_steps", good_steps}, {"skipped_steps", skipped_steps}};
}

LossScale scaling_of(const StateJson& json) {
  return {.scale = json.at("scale").get<double>(),
          .good_steps = json.at("good_steps").get<int64_t>(),
          .skipped_steps = json.at("skipped_steps").get<int64_t>()};
}

int64_t count_of(const StateJson& json, const char* what, const std::string& where) {
  constexpr int64_t kMost = int64_t{1} << 53;
  const bool good = json.is_number_integer() && (!json.is_number_unsigned() || json.get<uint64_t>() <= kMost) &&
                    json.get<int64_t>() >= 0 && json.get<int64_t>() <= kMost;
  if (!good) throw DamageError(fmt::format("{}: its \"{}\" has the invalid value {}", where, what, shortened(json.dump(), 60)));
  return json.get<int64_t>();
}

/// A JSON-object text is stored in the index as an object, for readability.
StateJson as_entry(const std::string& text) {
  StateJson json = StateJson::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : StateJson(text);
}

std::string as_text(const StateJson& entry) { return entry.is_string() ? entry.get<std::string>() : entry.dump(); }

bool is_age(const std::string& tensor) { return tensor.starts_with(std::string(kAgeState) + "/"); }

bool is_average(const std::string& tensor) { return tensor.starts_with(std::string(kAverageState) + "/"); }

/// Reads parts of the tensors that are in the checkpoint in their shape; strict loading has verified that all are.
class Filler {
 public:
  Filler(DataFiles& files, const std::string& checkpoint, const CheckpointIndex& index)
      : index_(index), reader_(files, checkpoint, index) {}
  void fill(const StatePart& part) {
    const auto found = index_.tensors.find(part.name);
    if (found != index_.tensors.end() && found->second.shape == part.shape) reader_.read(part);
  }
  void fill_buffers(const FlatModel& model) { weft::fill_buffers(model, index_, reader_); }
  int64_t bytes_read() const { return reader_.bytes_read(); }

 private:
  const CheckpointIndex& index_;
  DataReader reader_;
};

/// Updates that parameters trained from the first step on had taken when the checkpoint was saved.
int64_t updates_in(const CheckpointIndex& index, const std::string& where) {
  const int64_t steps = count_of(text_of(index, "clock", where).at("step"), "step", where);
  const LossScale scaling = scaling_of(text_of(index, kTrainerEntry, where).at("loss_scale"));
  return std::max<int64_t>(0, steps - scaling.skipped_steps);
}

/// The checkpoint's description of its optimizer states; empty for older versions.
std::map<std::string, std::string> meanings_in(const CheckpointIndex& index, const std::string& where) {
  return text_of(index, kTrainerEntry, where).value(kMeanings, std::map<std::string, std::string>());
}

void zero_part(const StatePart& part) {
  c10::NoGradGuard no_grad;
  for (const StateRun& run : part.runs) part.memory.narrow(0, run.memory_begin, run.numel).zero_();
}

/// Fills one part of the state, except the average: from the checkpoint, or with initial values.
void fill_state_part(Filler& filler, const TakenState& taken, const StatePart& part) {
  if (taken.begins_anew(part.name)) return zero_part(part);
  if (!is_age(part.name) || taken.takes_age(part.name)) filler.fill(part);
}

/// Sets ages that the checkpoint does not have; the others are filled later.
void begin_ages(TrainerState& trainer, const TakenState& taken, int64_t updates) {
  if (!has_ages(trainer.optimizer)) return;
  std::vector<int64_t>& ages = trainer.updater->optimizer().ages();
  for (size_t i = 0; i < ages.size(); ++i) ages[i] = taken.age_of(static_cast<int>(i), updates);
}

DamageError incomplete(const std::string& where, const std::exception& error) {
  return DamageError(fmt::format("{}: its index lacks what a trainer needs: {}", where, error.what()));
}

/// Chooses the optimizer state to load; ages not in the checkpoint get their initial values.
TakenState choose_state(TrainerState& trainer, const CheckpointIndex& index, const std::string& where) {
  try {
    TakenState taken(*trainer.model, trainer.updater->optimizer(), trainer.optimizer, index, meanings_in(index, where));
    begin_ages(trainer, taken, updates_in(index, where));
    return taken;
  } catch (const nlohmann::json::exception& error) {
    throw incomplete(where, error);
  }
}

void check_ages(const TrainerState& trainer, const std::string& where) {
  for (const int64_t age : trainer.updater->optimizer().ages()) {
    if (age < 0) throw DamageError(fmt::format("{}: a parameter has an invalid count of {} updates", where, age));
  }
}

std::vector<std::string> load_registered(TrainerState& trainer, const StateJson& texts) {
  std::vector<std::string> lines;
  for (const auto& [name, state] : trainer.registered) {
    if (!state.load) continue;
    if (texts.contains(name)) {
      state.load(as_text(texts.at(name)));
    } else {
      lines.push_back(fmt::format("registered state '{}' is not in the checkpoint", name));
    }
  }
  for (const auto& [name, text] : texts.items()) {
    const auto found = trainer.registered.find(name);
    if (found == trainer.registered.end() || !found->second.load) {
      lines.push_back(fmt::format("registered state '{}' of the checkpoint is not registered here", name));
    }
  }
  return lines;
}

/// Loads the age of the average, or starts the average here.
void load_average(TrainerState& trainer, const CheckpointIndex& index, const StateJson& numbers, const std::string& where,
                  LoadReport& report) {
  if (!trainer.options.average.is_kept()) return;
  int64_t updates = 0;
  if (has_average(index)) {
    updates = count_of(numbers.at(kAverageState).at("updates"), "updates", where);
  } else {
    report.skipped.push_back(fmt::format("{}: it has no average of the weights; the average starts from its weights", where));
  }
  trainer.updater->set_average_updates(report.step, updates);
}

std::string older_text(const std::vector<std::string>& buffers, const std::string& where) {
  const std::string more = buffers.size() > 1 ? fmt::format(" and {} more", buffers.size() - 1) : "";
  return fmt::format("{}: it was saved when checkpoints had only float32 buffers; kept as in this model: '{}'{}", where,
                     buffers.front(), more);
}

void require_none(const std::vector<std::string>& lines, const std::string& where, const LoadOptions& options,
                  const std::string& optimizer = "") {
  if (lines.empty() || !options.strict) return;
  if (!optimizer.empty()) {
    throw InputError(
        fmt::format("{}: {}; load it with the optimizer it was saved with ({} takes the weights, and resets the optimizer's "
                    "state)",
                    where, optimizer, options.loosely));
  }
  const std::string more = lines.size() > 1 ? fmt::format(", and {} more", lines.size() - 1) : "";
  throw InputError(fmt::format("{}: {}{}; load it into the model it was saved from ({} takes what fits)", where, lines.front(),
                               more, options.loosely));
}

}  // namespace

BlockOptimizer kept_of(const TrainerState& trainer, const std::vector<at::Tensor>& state) {
  Optimizer& optimizer = trainer.updater->optimizer();
  return {&state, &optimizer, trainer.options.average.is_kept(), has_ages(trainer.optimizer) ? &optimizer.ages() : nullptr};
}

void for_each_written(TrainerState& trainer, const std::function<void(const StatePart&)>& visit) {
  const WriteShare share = share_of(trainer);
  trainer.engine->for_each_state([&](int block, const std::vector<at::Tensor>& state) {
    for (const StatePart& part : written_state(*trainer.model, block, kept_of(trainer, state), share)) visit(part);
  });
  for_each_written_buffer(*trainer.model, share, visit);
  if (trainer.mesh.world().rank() != 0) return;
  for (const auto& [name, state] : trainer.registered) {
    for (const NamedTensor& t : state.tensors) visit(whole_part(registered_tensor(name, t.name), t.tensor));
  }
}

void for_each_written_weight(TrainerState& trainer, const std::function<void(int block, const StatePart&)>& visit) {
  const WriteShare share = share_of(trainer);
  trainer.engine->for_each_state([&](int block, const std::vector<at::Tensor>&) {
    for (const StatePart& part : written_state(*trainer.model, block, {}, share)) visit(block, part);
  });
}

std::map<std::string, std::string> state_texts(const TrainerState& trainer) {
  std::map<std::string, std::string> texts;
  const int64_t targets = trainer.engine->nominal_targets();
  if (targets > 0) {
    texts[kLossEntry] = StateJson{{"nominal_targets", targets}, {"micro_batch", trainer.options.micro_batch}}.dump();
  }
  if (trainer.mesh.world().rank() != 0) return texts;
  if (const std::vector<ModelOption>& options = trainer.model->model().options; !options.empty()) {
    texts[kModelEntry] = model_options_text(options);
  }
  texts["clock"] = StateJson{{"step", trainer.steps_done}, {"samples", trainer.samples_done()}}.dump();
  StateJson numbers = {{"loss_scale", scaling_json(trainer.updater->scaling())},
                       {"is_scaled", trainer.updater->is_scaled()},
                       {"seed", trainer.options.seed},
                       {kMeanings, state_meanings(trainer.optimizer)}};
  if (trainer.options.average.is_kept()) {
    numbers[kAverageState] = {{"updates", trainer.updater->average_updates(trainer.steps_done)}};
  }
  texts[kTrainerEntry] = numbers.dump();
  texts[kBuffersEntry] = buffers_text(*trainer.model);
  StateJson registered = StateJson::object();
  for (const auto& [name, state] : trainer.registered) {
    if (state.save) registered[name] = as_entry(state.save());
  }
  texts[kRegisteredEntry] = registered.dump();
  return texts;
}

LoadReport load_state(TrainerState& trainer, DataFiles& files, const std::string& checkpoint, const CheckpointIndex& index,
                      const LoadOptions& options) {
  const std::string where = files.full(checkpoint);
  const CheckpointMisfits misfits = checkpoint_misfits(trainer, index);
  if (!misfits.any_weight && !options.strict) {
    throw InputError(
        fmt::format("{}: none of the model's {} has a match in name and shape, so it belongs to another model; name one "
                    "of this model, or start over in another folder",
                    where, counted(misfits.num_weights, "weight")));
  }
  LoadReport report{.step = 0, .bytes_read = 0, .skipped = misfits.lines};
  const BufferMisfits buffers = buffer_misfits(*trainer.model, index);
  report.skipped.insert(report.skipped.end(), buffers.lines.begin(), buffers.lines.end());
  const TakenState taken = choose_state(trainer, index, where);
  report.skipped.insert(report.skipped.end(), taken.lines().begin(), taken.lines().end());
  require_none(report.skipped, where, options, misfits.optimizer);
  if (!buffers.older.empty()) report.skipped.push_back(older_text(buffers.older, where));
  Filler filler(files, checkpoint, index);
  trainer.engine->fill_state([&](int block, std::vector<at::Tensor>& state) {
    const std::vector<StatePart> parts = owned_state(*trainer.model, block, kept_of(trainer, state));
    for (const bool average : {false, true}) {  // the average starts as the weights if the checkpoint has none
      if (average) trainer.start_average(block, state);
      for (const StatePart& part : parts) {
        if (is_average(part.name) != average) continue;
        average ? filler.fill(part) : fill_state_part(filler, taken, part);
      }
    }
  });
  filler.fill_buffers(*trainer.model);
  check_ages(trainer, where);
  for (const auto& [name, state] : trainer.registered) {
    for (const NamedTensor& t : state.tensors) filler.fill(whole_part(registered_tensor(name, t.name), t.tensor));
  }
  report.bytes_read = filler.bytes_read();
  int64_t samples = 0;
  try {
    const std::vector<std::string> lines = load_registered(trainer, text_of(index, kRegisteredEntry, where));
    require_none(lines, where, options);
    report.skipped.insert(report.skipped.end(), lines.begin(), lines.end());
    const StateJson numbers = text_of(index, kTrainerEntry, where);
    const LossScale scaling = scaling_of(numbers.at("loss_scale"));
    const bool good =
        std::isfinite(scaling.scale) && scaling.scale >= 1.0 && scaling.good_steps >= 0 && scaling.skipped_steps >= 0;
    if (!good) throw DamageError(fmt::format("{}: its loss scale of {} is invalid", where, scaling.scale));
    trainer.updater->set_scaling(scaling, numbers.at("is_scaled").get<bool>());
    const StateJson loss = index.texts.count(kLossEntry) > 0 ? text_of(index, kLossEntry, where) : StateJson::object();
    const bool same_micro_batch = loss.value("micro_batch", int64_t{0}) == trainer.options.micro_batch;
    trainer.engine->set_nominal_targets(same_micro_batch ? count_of(loss.at("nominal_targets"), "nominal_targets", where) : 0);
    const StateJson clock = text_of(index, "clock", where);
    report.step = count_of(clock.at("step"), "step", where);
    load_average(trainer, index, numbers, where, report);
    samples = count_of(clock.at("samples"), "samples", where);
  } catch (const nlohmann::json::exception& error) {
    throw incomplete(where, error);
  }
  trainer.steps_done = report.step;
  trainer.shift = samples - trainer.batches.samples_before(report.step);  // its steps may have had other batch sizes
  return report;
}

}  // namespace weft
