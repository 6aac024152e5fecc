#include "weft/engine/keyed_calls.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/nn/keyed_generators.h"
#include "weft/nn/torch_text.h"

namespace weft {

namespace {

RandomKey key_of(const Context& context, const std::string& name, const std::string& part) {
  const std::string text = fmt::format("{}@{}{}{}", name, context.first_sample, part, context.training ? "" : " evaluated");
  return random_key(context.seed, text, context.step);
}

/// Adds the name to LibTorch's errors, which do not say where they occurred.
void with_name(const std::string& name, c10::function_ref<void()> call) {
  try {
    call();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    throw Error(fmt::format("{}: {}", name, torch_text(error)));
  }
}

}  // namespace

void keyed_call(const FlatModel& model, int block, const Context& context, const std::string& part,
                c10::function_ref<void()> call) {
  const std::string& name = model.model().blocks[block].name;
  const std::string own = random_name_of(model.block(block));
  const RandomKey key = key_of(context, own.empty() ? name : own, part);
  const auto keyed = [&] { with_keyed_generators(key, fmt::format("block '{}'", name), model.options().device, call); };
  if (part.empty()) return keyed();
  with_name(fmt::format("the{} of block '{}'", part, name), keyed);
}

void keyed_loss_call(const FlatModel& model, const Context& context, const std::string& part, c10::function_ref<void()> call) {
  const RandomKey key = key_of(context, "the loss", part);
  const auto keyed = [&] { with_keyed_generators(key, "the loss", model.options().device, call); };
  if (part.empty()) return keyed();
  with_name(fmt::format("the{} of the loss", part), keyed);
}

}  // namespace weft
