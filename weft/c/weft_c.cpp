// The functions of weft.h: each finds its object and runs in guarded().
#include <cmath>

#include "weft/base/time_limit.h"
#include "weft/c/call.h"
#include "weft/c/caller_memory.h"
#include "weft/c/handles.h"
#include "weft/c/host_trainer.h"
#include "weft/c/weft.h"
#include "weft/comm/world.h"

namespace weft::c {
namespace {

/// A world, which one trainer at a time is made with.
struct HostWorld {
  World world;
  std::atomic_flag taken = {};
};

// Never destroyed: a program may end while a thread of it is in a call.
auto& worlds() {
  static auto& all = *new Handles<weft_world, HostWorld>;
  return all;
}
auto& trainers() {
  static auto& all = *new Handles<weft_trainer, HostTrainer>;
  return all;
}

std::chrono::milliseconds timeout_of(double timeout_s) {
  if (!(timeout_s > 0.0)) throw InputError("timeout_s must be above 0");
  return time_limit(timeout_s);
}

/// Runs `call` on the trainer of a handle.
template <class Call>
int on_trainer(const char* name, weft_trainer* handle, const Call& call) noexcept {
  return guarded(name, [&] {
    const std::shared_ptr<HostTrainer> trainer = trainers().get(handle, "trainer");
    const Turn turn(trainer->taken, "trainer");
    call(*trainer);
  });
}

template <class T>
void set(T* result, const T& value) {
  if (result) *result = value;
}

HostTrainer::Log log_of(weft_log log, void* context) {
  if (!log) return {};
  return [log, context](const std::string& line) { as_caller([&] { log(context, line.c_str()); }); };
}

}  // namespace
}  // namespace weft::c

using namespace weft::c;  // NOLINT: the functions are C's

const char* weft_version(void) { return WEFT_VERSION; }

const char* weft_last_error(void) { return last_error(); }

int weft_world_from_environment(double timeout_s, weft_world** world) {
  return guarded(__func__, [&] {
    writable(given(world, "world"), "world");
    auto made = std::make_shared<HostWorld>(weft::World::from_environment(timeout_of(timeout_s)));
    *world = worlds().add(std::move(made));
  });
}

int weft_world_join(int rank, int size, const char* address, double timeout_s, weft_world** world) {
  return guarded(__func__, [&] {
    writable(given(world, "world"), "world");
    auto made = std::make_shared<HostWorld>(weft::World::join(rank, size, text_of(address, "address"), timeout_of(timeout_s)));
    *world = worlds().add(std::move(made));
  });
}

int weft_world_place(weft_world* world, int* rank, int* size) {
  return guarded(__func__, [&] {
    const std::shared_ptr<HostWorld> found = worlds().get(world, "world");
    set(writable(rank, "rank"), found->world.rank());
    set(writable(size, "size"), found->world.size());
  });
}

void weft_world_free(weft_world* world) {
  guarded(__func__, [&] { worlds().remove(world); });
}

int weft_trainer_make(weft_world* world, const char* recipe, weft_log log, void* context, weft_trainer** trainer) {
  return guarded(__func__, [&] {
    writable(given(trainer, "trainer"), "trainer");
    const std::shared_ptr<HostWorld> found = worlds().get(world, "world");
    const Turn turn(found->taken, "world");
    *trainer = trainers().add(std::make_shared<HostTrainer>(found->world, text_of(recipe, "recipe"), log_of(log, context)));
  });
}

void weft_trainer_free(weft_trainer* trainer) {
  guarded(__func__, [&] { trainers().remove(trainer); });
}

int weft_trainer_share(weft_trainer* trainer, int64_t* first, int64_t* count) {
  return on_trainer(__func__, trainer, [&](const HostTrainer& found) {
    const auto share = found.share();
    set(writable(first, "first"), share.first);
    set(writable(count, "count"), share.second);
  });
}

int weft_trainer_step(weft_trainer* trainer, const weft_array* inputs, int num_inputs, const weft_array* target,
                      weft_step* result) {
  return on_trainer(__func__, trainer, [&](HostTrainer& found) {
    writable(result, "result");
    set(result, found.step({inputs, num_inputs, target}));
  });
}

int weft_trainer_evaluate(weft_trainer* trainer, const weft_array* inputs, int num_inputs, const weft_array* target,
                          weft_evaluation* result) {
  return on_trainer(__func__, trainer, [&](HostTrainer& found) {
    writable(result, "result");
    set(result, found.evaluate({inputs, num_inputs, target}));
  });
}

int weft_trainer_predict(weft_trainer* trainer, const weft_array* inputs, int num_inputs, const weft_array* outputs,
                         int num_outputs) {
  return on_trainer(__func__, trainer, [&](HostTrainer& found) {
    found.predict({inputs, num_inputs, nullptr}, outputs, num_outputs);
  });
}

int weft_trainer_save(weft_trainer* trainer, const char* path, int replace) {
  return on_trainer(__func__, trainer, [&](HostTrainer& found) { found.save(text_of(path, "path"), replace != 0); });
}

int weft_trainer_load(weft_trainer* trainer, const char* path, int64_t* step) {
  return on_trainer(__func__, trainer, [&](HostTrainer& found) {
    writable(step, "step");
    set(step, found.load(text_of(path, "path")));
  });
}

int weft_trainer_load_weights(weft_trainer* trainer, const char* path) {
  return on_trainer(__func__, trainer, [&](HostTrainer& found) { found.load_weights(text_of(path, "path")); });
}

int weft_trainer_keep(weft_trainer* trainer, const char* name, const weft_array* value) {
  return on_trainer(__func__, trainer, [&](HostTrainer& found) { found.keep(text_of(name, "name"), value); });
}

int weft_trainer_visit_weights(weft_trainer* trainer, weft_visit visit, void* context) {
  return on_trainer(__func__, trainer, [&](HostTrainer& found) {
    given(visit, "visit");
    found.visit_weights(
        [&](const std::string& name, const weft_array* value) { as_caller([&] { visit(context, name.c_str(), value); }); });
  });
}
